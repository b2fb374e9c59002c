"""ALTER TYPE and ALTER DOMAIN: PostgreSQL changes the type, the gateway validates and rewrites rows of its columns.

A new constraint of a domain is validated like a table's (gateway/execution/constraints/constraint_validation.py). If
an enumeration's label is renamed, or a composite type gets other attributes, files with its values are rewritten like
for a column's new type (gateway/execution/schema/table_rewrite.py). Other sessions read and write meanwhile, except
for catching up with their commits.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, DataFile, Table, TableVersion
from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.constraints.constraint_validation import meet, obligations
from gateway.execution.schema.alter_table import order_changes
from gateway.execution.schema.catch_up import until_little_is_left
from gateway.execution.schema.change_in_block import Outcome, in_block
from gateway.execution.schema.deferred_validation import Deferral
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.execution.schema.reread_columns import RereadColumns
from gateway.execution.schema.table_rewrite import ComputedColumn, Plan, Reorganisation, computed_columns
from gateway.execution.shadow.function_guard import guarding
from gateway.session.cancel_listener import attending, check
from gateway.session.visibility import latest
from gateway.statement.implicit_functions import runs_functions
from gateway.statement.range_variable import quoted
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from planner.tree.nodes import name_of
from planner.tree.references import calls_users
from storage.parquet.arrow_types import arrow_type
from storage.parquet.table_rows import live_rows_aside
from storage.plan import column_name

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_TABLES_OF_DOMAIN: Final = """
WITH RECURSIVE over (oid) AS (
    SELECT pg_catalog.to_regtype($1)::pg_catalog.oid
    UNION SELECT t.oid FROM over d JOIN pg_catalog.pg_type t ON t.typbasetype OPERATOR(pg_catalog.=) d.oid
)
SELECT pg_catalog.to_regtype($1)::pg_catalog.oid, pg_catalog.json_agg(DISTINCT a.attrelid::pg_catalog.int8)
    FILTER (WHERE a.attrelid IS NOT NULL)
FROM over d LEFT JOIN pg_catalog.pg_attribute a ON a.atttypid OPERATOR(pg_catalog.=) d.oid
"""
_TYPE: Final = "SELECT pg_catalog.to_regtype($1)::pg_catalog.oid::pg_catalog.int8"


class AlterTypePortal(SchemaOnlyPortal):
    """A change of an enumeration, a composite type or a domain."""

    async def _is_made_in_block(self) -> bool:
        """A renamed label and changed attributes are not deferred: these rewrite files of all tables with the type."""
        query = self.routed.query
        assert query is not None
        utility = query.utilityStmt
        rewrites = utility.fields.get("oldVal") or utility.type == "ALTERTABLESTMT"
        is_standing = utility.type == "ALTERENUMSTMT" and not self.session.transaction.deferred.minds(
            name_of(utility.typeName[-1])
        )
        beside = partial(self._beside, utility.typeName) if is_standing else None
        return await in_block(self, None if rewrites else self.routed.lake, beside, self._in_window)

    async def _beside(self, name: Sequence[str]) -> Outcome:
        """Change the block's own type, which exists outside of windows.

        PostgreSQL lets a transaction use labels that it has added to its own type, unless a savepoint lies between; a
        window is one.
        """
        [found] = await self.session.backend.run(Statement(_TYPE, (quoted(name),)))
        oid = found.rows[0][0]
        if oid is None or await self.session.gateway.store.is_shared_type(int(oid)):
            return Outcome.NEXT_STEP
        self._tag = await self._relay()
        return Outcome.MADE

    async def _in_window(self) -> Deferral:
        session = self.session
        self._tag = await self._patiently()
        wanted = await obligations(session)
        tables = [(await latest(session, oid)).table for oid in sorted({each.relid for each in wanted})]
        return Deferral(tables=tables, wanted=wanted, renames=True)

    async def _carry_out(self) -> str:
        session, transaction = self.session, self.session.transaction
        await take_place(session, Place.SETTLED)
        await transaction.begin()
        transaction.fresh = False
        written: dict[int, Reorganisation] = {}
        try:
            tag = await self._change(written)
            for columns in written.values():
                await columns.publish()
            if wanted := await obligations(session):
                await meet(session, wanted)
            if transaction.implicit and session.ends_with_statement:
                await transaction.commit()
        except BaseException:
            for columns in written.values():
                await columns.discard()
            raise
        return tag

    async def _relay(self) -> str:
        """Let PostgreSQL execute the statement. It checks a domain's constraint in temporary tables too, with
        functions that may be user-defined.
        """
        session, query = self.session, self.routed.query
        assert query is not None
        if query.utilityStmt.type != "ALTERDOMAINSTMT":
            return await super()._relay()
        name = quoted(query.utilityStmt.typeName)
        [found] = await session.backend.run(Statement(_TABLES_OF_DOMAIN, (name,)))
        domain, tables = found.rows[0]
        watched = calls_users(query.utilityStmt, session.gateway.builtins) or await runs_functions(
            session, (), [int(domain or 0)]
        )
        scanned = [int(oid) for oid in json.loads(tables or b"[]")]  # of the lake, these are empty
        async with guarding(session, *scanned) if watched else nullcontext():
            return await super()._relay()

    async def _change(self, written: dict[int, Reorganisation]) -> str:
        """Change the type, once the files of all its tables are `written`; until then the change is undone, so that no
        session waits.
        """
        session = self.session
        while True:
            await session.backend.run(TRIAL.begin)
            tag = await self._patiently()
            found = {}
            for oid in await _tables_to_write_anew(session):
                if oid not in written:
                    found[oid] = computed_columns(*await session.backend.run(catalog_calls.column_obligations(oid)))
            if not found:
                await session.backend.run(TRIAL.release)
                return tag
            await session.backend.run(*TRIAL.undo)
            for oid, (columns, new) in found.items():
                await order_changes(session, oid)
                old = (await latest(session, oid)).table
                if all(old.column(column.attnum).labels for column in columns):
                    written[oid] = Relabelling.of(session, columns, old, new)
                else:
                    written[oid] = RereadColumns.of(session, columns, old, new, Statement(self.analysis.sql))
                await until_little_is_left(written[oid].catch_up)


class Relabelling(Reorganisation):
    """Columns with renamed labels: those whose labels differ between the `old` and the `new` table."""

    @classmethod
    def of(cls, session: SessionContext, columns: Sequence[ComputedColumn], old: Table, new: Table) -> Relabelling:
        """For all these columns."""
        places = {column.attnum: column.attnum for column in columns}
        plan = Plan(None, old, "", places, {}, may_be_asked=False, source=old, types={})
        return cls(session, old.oid, columns, old, new, plans=[plan])

    async def _compute(self, plan: Plan, files: Sequence[DataFile]) -> dict[str, pa.Table]:
        async with attending(self.session):
            return {file.path: await self._relabelled(plan, file) for file in files}

    async def _relabelled(self, plan: Plan, file: DataFile) -> pa.Table:
        data_path = self.session.gateway.data_path
        pairs = [(self.old.column(attnum), self.new.column(attnum)) for attnum in plan.targets]
        schema = pa.schema([(column_name(new.attnum), arrow_type(new.form)) for _, new in pairs])
        batches = []
        async for batch in live_rows_aside(data_path, TableVersion(self.old, 0, (file,))):
            check(self.session)
            arrays = [await asyncio.to_thread(_renamed, batch.column(old.name), old, new) for old, new in pairs]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema)


def _renamed(values: pa.Array, old: Column, new: Column) -> pa.Array:
    """Labels by their new names. Blocking."""
    names = {label.oid: label.text for label in new.labels}
    before = pa.array([label.text for label in old.labels], pa.string())
    now = pa.array([names[label.oid] for label in old.labels], pa.string())
    return now.take(pc.index_in(values.cast(pa.string()), before)).cast(arrow_type(new.form))


async def _tables_to_write_anew(session: SessionContext) -> list[int]:
    [result] = await session.backend.run(catalog_calls.tables_to_write_anew())
    return [int(oid) for (oid,) in result.rows if oid is not None]
