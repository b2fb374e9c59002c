"""Values of a column that rows which are there lack, and that Spark cannot compute: PostgreSQL computes them.

Rows go into a temporary table with the columns that the table had, their values come out of another one, whose columns
are those to come: what is assigned to them is cast, cut and refused as it is in PostgreSQL. Both are undone. No shadow
is locked meanwhile, so however many rows there are, nobody waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.model import DataFile, Table, TableVersion
from gateway.analysis import SAVEPOINT, UNDO
from gateway.backend import BackendLostError, Statement
from gateway.lake.guarded import guarding
from gateway.lake.shadow import binary_to_lake_form, copy_rows, rows_of_bodies
from gateway.transaction import BEGIN
from planner.lexer import quoted
from storage.arrow_types import arrow_type
from storage.plan import column_name
from storage.rows import live_rows_aside

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_ROLLBACK: Final = Statement("ROLLBACK")
_SOURCE: Final = "pg_temp.pg_sluice_rows"
_MADE: Final = "pg_temp.pg_sluice_values"
_EMPTY: Final = Statement(f"TRUNCATE {_SOURCE}, {_MADE}")


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """`expressions` over the columns of the table `old` give values of columns of `new`, by attnum.

    `types` are those of the columns of `old`, by name, and of the new values, by c<attnum>.
    """

    session: Exchange
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
            f"INSERT INTO {_MADE} (place, {listed}) SELECT pg_sluice_place, {values}"
            f" FROM {_SOURCE} AS {quoted(self.old.name)} ORDER BY pg_sluice_place"
        )
        take = Statement(f"SELECT {listed} FROM {_MADE} ORDER BY place", result_format=1, bodies_only=True)
        made: list[pa.RecordBatch] = []
        async with self._tables():
            async for batch in live_rows_aside(session.gateway.data_path, TableVersion(self.old, 0, (file,))):
                await copy_rows(session, _SOURCE, self.old.columns, batch)
                async with guarding(session):
                    _, taken, _ = await session.backend.run(compute, take, _EMPTY)
                for found in await asyncio.to_thread(rows_of_bodies, schema.names, taken.bodies):
                    converted = binary_to_lake_form(replace(self.new, columns=tuple(wanted)), found)
                    made.append(pa.RecordBatch.from_arrays(converted.columns, schema=schema))
        return pa.Table.from_batches(made, schema)

    @asynccontextmanager
    async def _tables(self) -> AsyncIterator[None]:
        """Both temporary tables, until they are undone."""
        backend = self.session.backend
        alone = backend.status == b"I"
        rows = ", ".join(f"{quoted(column.name)} {self.types[column.name]}" for column in self.old.columns)
        names = [column_name(attnum) for attnum in self.expressions]
        values = ", ".join(f"{name} {self.types[name]}" for name in names)
        undo = [_ROLLBACK] if alone else UNDO
        await backend.run(BEGIN if alone else SAVEPOINT)
        try:
            await backend.run(
                Statement(f"CREATE TEMPORARY TABLE pg_sluice_rows ({rows}, pg_sluice_place bigserial)"),
                Statement(f"CREATE TEMPORARY TABLE pg_sluice_values (place bigint, {values})"),
            )
            yield
        except BackendLostError:
            raise
        except BaseException:
            await backend.run(*undo)
            raise
        await backend.run(*undo)
