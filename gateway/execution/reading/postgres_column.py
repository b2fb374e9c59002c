"""Has PostgreSQL compute new values of a column for existing rows, if Spark cannot.

Rows go into a temporary table with the old columns. Their values come from another one with the new columns, so
PostgreSQL casts, truncates and refuses them as assignments. Both tables are undone. No shadow is locked meanwhile, so
no session waits, however many rows there are. The same way checks whether rows satisfy a condition
(`gateway.execution.constraints.constraint_validation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from catalog.datatypes import FIRST_USER_OID, INT8
from catalog.model import Column, DataFile, Table, TableVersion
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.reading.function_tables import may_leave_effects
from gateway.execution.shadow.function_guard import guarding
from gateway.execution.shadow.shadow import binary_to_lake_form, copy_rows, copying_few, kept_value, rows_of_bodies
from gateway.session.cancel_listener import check
from gateway.statement.query_placement import are_handed
from gateway.transaction.transaction import BEGIN
from planner.plans.computable import acting_functions, functions_of_users, is_computable
from planner.syntax.lexer import quoted
from planner.tree.nodes import Node
from storage.parquet.arrow_types import arrow_type
from storage.parquet.table_rows import live_rows_aside
from storage.plan import column_name

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext

# The order of copied rows. No sequence numbers them: the client's lastval() would tell of it.
PLACE: Final = Column(32_767, 32_767, "pg_sluice_place", INT8, -1, nullable=False)
_ROLLBACK: Final = Statement("ROLLBACK")
_SOURCE: Final = f"pg_temp.{OWN}_rows"
_MADE: Final = f"pg_temp.{OWN}_values"
_TYPES: Final = """
SELECT attname, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
WHERE attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid AND attnum OPERATOR(pg_catalog.>) 0
    AND NOT attisdropped
"""
_VOLATILE: Final = "SELECT pg_sluice.volatile_functions($1::pg_catalog.oid[])"
_MADE_OID: Final = Statement(f"SELECT '{_MADE}'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.int8")
_NO_TABLE: Final = 0
_MAY_HAVE_TEMPORARY: Final = Statement(
    "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')"
)


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """`expressions` over the columns of the table `old` compute columns of `new`, by attnum.

    `types` are those of the columns of `old`, by name, and of the new values, by c<attnum>. `watched`: functions of
    users may run, which must neither read lake tables nor change others.
    """

    session: SessionContext
    old: Table
    new: Table
    expressions: Mapping[int, str]
    types: Mapping[str, str]
    watched: bool

    async def values(self, file: DataFile) -> pa.Table:
        """c<attnum> in lake form, for all live rows of a file in their order."""
        session = self.session
        wanted = tuple(self.new.column(attnum) for attnum in self.expressions)
        schema = pa.schema([(column_name(column.attnum), arrow_type(column.form)) for column in wanted])
        rows = CopiedRows(session, (*self.old.columns, PLACE), [_SOURCE, _MADE])
        made: list[pa.RecordBatch] = []
        async with temporary_tables(session, *self._making()) as [*_, found]:
            made_in = int(found.rows[0][0] or 0) if self.watched else None
            async for batch in live_rows_aside(session.gateway.data_path, TableVersion(self.old, 0, (file,))):
                check(session)
                computed, taken = await rows.ask(placed(batch), *self._computing(wanted), changing=made_in)
                session.client.send(*computed.notices)
                for values in await asyncio.to_thread(rows_of_bodies, schema.names, taken.bodies):
                    converted = binary_to_lake_form(replace(self.new, columns=wanted), values)
                    made.append(pa.RecordBatch.from_arrays(converted.columns, schema=schema))
        return pa.Table.from_batches(made, schema)

    def _making(self) -> list[Statement]:
        """Make both temporary tables."""
        values = "".join(f", {name} {self.types[name]}" for name in map(column_name, self.expressions))
        return [
            Statement(f"CREATE TEMPORARY TABLE {OWN}_rows ({_listed(self.old, self.types)}, {PLACE.name} bigint)"),
            Statement(f"CREATE TEMPORARY TABLE {OWN}_values (place bigint{values})"),
            _MADE_OID,
        ]

    def _computing(self, wanted: Sequence[Column]) -> tuple[Statement, Statement]:
        """Compute values of all copied rows, and take them."""
        listed = "".join(f", {column_name(column.attnum)}" for column in wanted)
        values = "".join(f", ({expression})" for expression in self.expressions.values())
        compute = (
            f"INSERT INTO {_MADE} (place{listed}) SELECT {PLACE.name}{values}"
            f" FROM {_SOURCE} AS {quoted(self.old.name)} ORDER BY {PLACE.name}"
        )
        kept = ", ".join(kept_value(column, column_name(column.attnum)) for column in wanted)
        take = f"SELECT {kept} FROM {_MADE} ORDER BY place"
        return Statement(compute, of_client=True), Statement(take, result_format=1, bodies_only=True)


class CopiedRows:
    """Rows of these columns in the temporary table for them, one batch after the other; `emptied` are all tables that
    have something of a batch.
    """

    def __init__(self, session: SessionContext, columns: Sequence[Column], emptied: Sequence[str]) -> None:
        self._session, self._columns = session, columns
        self._before: list[Statement] = []
        self._empty = Statement(f"TRUNCATE {', '.join(emptied)}")

    async def ask(self, rows: pa.RecordBatch, *questions: Statement, changing: int | None = None) -> Sequence[Result]:
        """Copy the rows in place of those before, and execute statements; in one round trip, if the rows are few. If
        `changing` has an OID, raise 0A000 if functions read lake tables, or change another table than that one.
        """
        session, before = self._session, self._before
        self._before = [self._empty]
        copying = copying_few(_SOURCE, self._columns, rows)
        first = before if copying is None else [*before, copying]
        if first and (copying is None or changing is not None):
            await session.backend.run(*first)
            first = []
        if copying is None:
            await copy_rows(session, _SOURCE, self._columns, rows)
        if changing is None:
            return (await session.backend.run(*first, *questions))[len(first) :]
        async with guarding(session, undone_in=changing):
            return await session.backend.run(*questions)


def placed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their numbers, as the column PLACE."""
    return rows.append_column(PLACE.name, pa.array(np.arange(rows.num_rows)))


async def column_types(session: SessionContext, relid: int) -> dict[str, str]:
    """The types of a table's columns, as PostgreSQL writes them, by column name."""
    [types] = await session.backend.run(Statement(_TYPES, (str(relid),)))
    return {(name or b"").decode(): (each or b"").decode() for name, each in types.rows}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions for rows of a table, whose columns have these types: about all columns, or about one, which they call
    VALUE. `watched`: see `ComputedColumns`.
    """

    version: TableVersion
    types: Mapping[str, str]
    conditions: Sequence[str]
    watched: bool
    value: str | None = None


async def first_met(session: SessionContext, asked: Conditions) -> int | None:
    """The place of the first condition that the first row satisfies which satisfies any; None without such a row."""
    version, source = asked.version, f"{_SOURCE} AS {quoted(asked.version.table.name)}"
    if asked.value is not None:
        only = tuple(column for column in version.table.columns if column.name == asked.value)
        version = replace(version, table=replace(version.table, columns=only))
        source = f"(SELECT {quoted(asked.value)} AS value FROM {_SOURCE}) AS t"
    table = version.table
    making = Statement(f"CREATE TEMPORARY TABLE {OWN}_rows ({_listed(table, asked.types)})")
    which = " ".join(f"WHEN {condition} THEN {place}" for place, condition in enumerate(asked.conditions))
    found = f"(SELECT CASE {which} END AS place FROM {source} OFFSET 0) AS found"
    ask = Statement(f"SELECT place FROM {found} WHERE place IS NOT NULL LIMIT 1", of_client=True)
    rows = CopiedRows(session, table.columns, [_SOURCE])
    async with temporary_tables(session, making):
        async for batch in live_rows_aside(session.gateway.data_path, version):
            check(session)
            [answer] = await rows.ask(batch, ask, changing=_NO_TABLE if asked.watched else None)
            session.client.send(*answer.notices)
            if answer.rows:
                return int(answer.rows[0][0] or 0)
    return None


def is_watched(session: SessionContext, query: Node, columns: Iterable[Column] = ()) -> bool:
    """Whether functions of users may run where the query is computed, and values of these columns are made."""
    made = any(column.type_oid >= FIRST_USER_OID or column.domain is not None for column in columns)
    return made or bool(acting_functions(query, session.gateway.builtins))


async def may_be_asked(session: SessionContext, query: Node) -> bool:
    """Whether PostgreSQL may compute the query over copied rows: it has no other effect. User-defined functions that
    read the lake, or change any table, are detected at execution; other effects are guessed from their words.
    """
    builtins = session.gateway.builtins
    if not is_computable(query, builtins, made_by_users=True):
        return False
    acting = acting_functions(query, builtins)
    if not acting:
        return True
    [found] = await session.backend.run(Statement(_VOLATILE, (number_array(acting),)))
    if found.rows[0][0] is None:
        return True
    of_users = functions_of_users(query)
    return acting <= of_users and not await may_leave_effects(session, of_users)


async def are_few_for_postgres(session: SessionContext, reading: Reading) -> bool:
    """Whether PostgreSQL is to compute over the rows that are read: they are few, and the client may make temporary
    tables. A domain would judge the rows that come into these.
    """
    versions = reading.versions.values()
    if any(column.domain is not None for version in versions for column in version.table.columns):
        return False
    if not are_handed(session, reading.placing, versions):
        return False
    return await may_make_tables(session)


async def may_make_tables(session: SessionContext) -> bool:
    """Whether the client may make temporary tables."""
    [may] = await session.backend.run(_MAY_HAVE_TEMPORARY)
    return may.rows[0][0] == b"t"


def _listed(table: Table, types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(column.name)} {types[column.name]}" for column in table.columns)


@asynccontextmanager
async def temporary_tables(session: SessionContext, *making: Statement) -> AsyncIterator[Sequence[Result]]:
    """Surrounds statements that make temporary tables, and undoes them; gives their answers."""
    backend = session.backend
    alone = backend.status == b"I"
    begun, undo = ([BEGIN], [_ROLLBACK]) if alone else ([], TRIAL.undo)
    if not alone:
        await backend.run(TRIAL.begin)
    try:
        made = await backend.run(*begun, *making)
        yield made[len(begun) :]
    except BackendLostError:
        raise
    except BaseException:
        await backend.run(*undo)
        raise
    await backend.run(*undo)
