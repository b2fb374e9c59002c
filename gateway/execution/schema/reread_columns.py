"""Converts values after a change of their type: arrays and rows with renamed labels or other attributes.

PostgreSQL reads the texts of files into a temporary table with the old type; the type is changed, and the table's new
values are read. Both are undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from catalog.model import DataFile, Table, TableVersion
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.reading.postgres_column import PLACE, placed, temporary_tables
from gateway.execution.schema.table_rewrite import ComputedColumn, Plan, Reorganisation
from gateway.execution.shadow.shadow import binary_to_lake_form, copy_rows, kept_value, rows_of_bodies
from gateway.session.cancel_listener import check
from planner.syntax.lexer import quoted
from storage.parquet.arrow_types import arrow_type
from storage.parquet.table_rows import live_rows_aside
from storage.plan import column_name

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_ROWS: Final = f"pg_temp.{OWN}_rows"


@dataclass(slots=True)
class RereadColumns(Reorganisation):
    """The columns of one table, around the `change` of a type."""

    change: Statement = field(default_factory=lambda: Statement(""))

    @classmethod
    def of(
        cls, session: SessionContext, columns: Sequence[ComputedColumn], old: Table, new: Table, change: Statement
    ) -> Self:
        """For all these columns."""
        places = {column.attnum: column.attnum for column in columns}
        plan = Plan(None, old, "", places, {}, may_be_asked=False, source=old, types={})
        return cls(session, old.oid, columns, old, new, plans=[plan], change=change)

    async def _compute(self, plan: Plan, files: Sequence[DataFile]) -> dict[str, pa.Table]:
        return {file.path: await self._reread(plan, file) for file in files}

    async def _reread(self, plan: Plan, file: DataFile) -> pa.Table:
        session = self.session
        before = [self.old.column(attnum) for attnum in plan.targets]
        after = [self.new.column(attnum) for attnum in plan.targets]
        schema = pa.schema([(column_name(column.attnum), arrow_type(column.form)) for column in after])
        types = {column.attnum: column.type for column in self.columns}
        listed = ", ".join(f"{quoted(column.name)} {types[column.attnum]}" for column in before)
        making = Statement(f"CREATE TEMPORARY TABLE {OWN}_rows ({listed}, {PLACE.name} bigint)")
        kept = ", ".join(kept_value(now, quoted(column.name)) for column, now in zip(before, after, strict=True))
        take = Statement(f"SELECT {kept} FROM {_ROWS} ORDER BY {PLACE.name}", result_format=1, bodies_only=True)
        made: list[pa.RecordBatch] = []
        async for batch in live_rows_aside(session.gateway.data_path, TableVersion(self.old, 0, (file,))):
            check(session)
            async with temporary_tables(session, making):
                rows = placed(batch.select([column.name for column in before]))
                await copy_rows(session, _ROWS, (*before, PLACE), rows)
                _, taken = await session.backend.run(self.change, take)
            for found in await asyncio.to_thread(rows_of_bodies, schema.names, taken.bodies):
                converted = binary_to_lake_form(replace(self.new, columns=tuple(after)), found)
                made.append(pa.RecordBatch.from_arrays(converted.columns, schema=schema))
        return pa.Table.from_batches(made, schema)
