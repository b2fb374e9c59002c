"""Has PostgreSQL compute new values of a column for existing rows, if Spark cannot.

Rows go into a temporary table with the old columns. Their values come from another one with the new columns, so
PostgreSQL casts, truncates and refuses them as assignments. Both tables are undone. No shadow is locked meanwhile, so
no session waits, however many rows there are. The same way checks whether rows satisfy a condition
(`gateway.execution.constraints.constraint_validation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from catalog.datatypes import INT8
from catalog.model import Column, DataFile, Table, TableVersion
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.reading.function_tables import may_leave_effects
from gateway.execution.shadow.function_guard import guarding
from gateway.execution.shadow.shadow import binary_to_lake_form, copy_rows, kept_value, rows_of_bodies
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
_EMPTY: Final = Statement(f"TRUNCATE {_SOURCE}, {_MADE}")


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """`expressions` over the columns of the table `old` compute columns of `new`, by attnum.

    `types` are those of the columns of `old`, by name, and of the new values, by c<attnum>.
    """

    session: SessionContext
    old: Table
    new: Table
    expressions: Mapping[int, str]
    types: Mapping[str, str]

    async def values(self, file: DataFile) -> pa.Table:
        """c<attnum> in lake form, for all live rows of a file in their order."""
        session = self.session
        wanted = [self.new.column(attnum) for attnum in self.expressions]
        schema = pa.schema([(column_name(column.attnum), arrow_type(column.form)) for column in wanted])
        listed = ", ".join(schema.names)
        values = ", ".join(f"({expression})" for expression in self.expressions.values())
        compute = Statement(
            f"INSERT INTO {_MADE} (place, {listed}) SELECT {PLACE.name}, {values}"
            f" FROM {_SOURCE} AS {quoted(self.old.name)} ORDER BY {PLACE.name}",
            of_client=True,
        )
        kept = ", ".join(kept_value(column, column_name(column.attnum)) for column in wanted)
        take = Statement(f"SELECT {kept} FROM {_MADE} ORDER BY place", result_format=1, bodies_only=True)
        made: list[pa.RecordBatch] = []
        async with self._tables():
            [[[made_in]]] = [result.rows for result in await session.backend.run(_MADE_OID)]
            async for batch in live_rows_aside(session.gateway.data_path, TableVersion(self.old, 0, (file,))):
                await copy_rows(session, _SOURCE, (*self.old.columns, PLACE), placed(batch))
                async with guarding(session, undone_in=int(made_in or 0)):
                    computed, taken = await session.backend.run(compute, take)
                session.client.send(*computed.notices)
                await session.backend.run(_EMPTY)
                for found in await asyncio.to_thread(rows_of_bodies, schema.names, taken.bodies):
                    converted = binary_to_lake_form(replace(self.new, columns=tuple(wanted)), found)
                    made.append(pa.RecordBatch.from_arrays(converted.columns, schema=schema))
        return pa.Table.from_batches(made, schema)

    def _tables(self) -> AbstractAsyncContextManager[None]:
        """Make both temporary tables."""
        names = [column_name(attnum) for attnum in self.expressions]
        values = ", ".join(f"{name} {self.types[name]}" for name in names)
        return temporary_tables(
            self.session,
            Statement(f"CREATE TEMPORARY TABLE {OWN}_rows ({_listed(self.old, self.types)}, {PLACE.name} bigint)"),
            Statement(f"CREATE TEMPORARY TABLE {OWN}_values (place bigint, {values})"),
        )


def placed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their numbers, as the column PLACE."""
    return rows.append_column(PLACE.name, pa.array(np.arange(rows.num_rows)))


async def column_types(session: SessionContext, relid: int) -> dict[str, str]:
    """The types of a table's columns, as PostgreSQL writes them, by column name."""
    [types] = await session.backend.run(Statement(_TYPES, (str(relid),)))
    return {(name or b"").decode(): (each or b"").decode() for name, each in types.rows}


async def has_row(
    session: SessionContext, version: TableVersion, types: Mapping[str, str], condition: str, *, value: str | None
) -> bool:
    """Whether a row of the table, whose columns have these types, satisfies a condition. The condition is about all
    columns, or about one, which it calls VALUE.
    """
    source = f"{_SOURCE} AS {quoted(version.table.name)}"
    if value is not None:
        only = tuple(column for column in version.table.columns if column.name == value)
        version = replace(version, table=replace(version.table, columns=only))
        source = f"(SELECT {quoted(value)} AS value FROM {_SOURCE}) AS t"
    table = version.table
    making = Statement(f"CREATE TEMPORARY TABLE {OWN}_rows ({_listed(table, types)})")
    ask = Statement(f"SELECT 1 FROM {source} WHERE {condition} LIMIT 1", of_client=True)
    async with temporary_tables(session, making):
        async for batch in live_rows_aside(session.gateway.data_path, version):
            check(session)
            await copy_rows(session, _SOURCE, table.columns, batch)
            async with guarding(session, undone_in=_NO_TABLE):
                [found] = await session.backend.run(ask)
            session.client.send(*found.notices)
            if found.rows:
                return True
            await session.backend.run(Statement(f"TRUNCATE {_SOURCE}"))
    return False


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
    [may] = await session.backend.run(_MAY_HAVE_TEMPORARY)
    return may.rows[0][0] == b"t"


def _listed(table: Table, types: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(column.name)} {types[column.name]}" for column in table.columns)


@asynccontextmanager
async def temporary_tables(session: SessionContext, *making: Statement) -> AsyncIterator[None]:
    """Surrounds statements that make temporary tables, and undoes them."""
    backend = session.backend
    alone = backend.status == b"I"
    undo = [_ROLLBACK] if alone else TRIAL.undo
    await backend.run(BEGIN if alone else TRIAL.begin)
    try:
        await backend.run(*making)
        yield
    except BackendLostError:
        raise
    except BaseException:
        await backend.run(*undo)
        raise
    await backend.run(*undo)
