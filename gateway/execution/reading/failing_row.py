"""Finds the row that has violated NOT NULL or CHECK in Spark, for the error's detail.

Spark reports the violated constraint; the rows are computed once more, up to one that violates it. If none does,
because the results differ each time, there is no detail. Source: ExecBuildSlotValueDescription in PostgreSQL's
execMain.c.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError
from catalog.model import Table
from gateway.execution.reading.error_privileges import WHOLE_TABLE, told_columns
from gateway.execution.reading.plan_context import Reading, runnable
from gateway.values.text import text_cells
from planner.plans.constraint_checks import broken_rows
from planner.spark.plan import SparkQuery
from planner.tree.references import written_columns

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

# Bytes of a value that are shown.
_BYTES_MAX: Final = 64


@asynccontextmanager
async def telling_row(  # noqa: PLR0917
    session: SessionContext, change: Node, query: SparkQuery, table: Table, checks: Mapping[str, str], reading: Reading
) -> AsyncIterator[None]:
    """Around the execution of `planner.plans.constraint_checks.enforced` of the query, which is of the analysed
    `change`: its errors tell the row."""
    try:
        yield
    except SluiceError as error:
        broken = broken_rows(query, table, checks, error)
        if broken is None:
            raise
        attnums = [WHOLE_TABLE, *(column.attnum for column in table.columns)]
        told = await told_columns(session, table, attnums, written_columns(change))
        if not told:
            raise
        shown = None if WHOLE_TABLE in told else told
        async with await session.gateway.engine.stream(runnable(broken, reading), session.tag) as stream:
            async for batch in stream:
                if batch.num_rows:
                    error.fields["D"] = f"Failing row contains {_described(table, batch, reading, shown)}."
                    break
        raise


def _described(table: Table, batch: pa.RecordBatch, reading: Reading, told: Collection[int] | None) -> str:
    """The row as `(1, x)`, or, if only some of its columns may be shown, as `(a, b) = (1, x)`."""
    row = batch.slice(0, 1)
    shown = [
        (column, array)
        for column, array in zip(table.columns, row.columns, strict=True)
        if told is None or column.attnum in told
    ]
    values = ", ".join(
        "null" if array.null_count else _clipped(text_cells(array, column.type_oid, reading.output)[0].as_py())
        for column, array in shown
    )
    names = "" if told is None else f"({', '.join(column.name for column, _ in shown)}) = "
    return f"{names}({values})"


def _clipped(value: bytes) -> str:
    return value.decode() if len(value) <= _BYTES_MAX else value[:_BYTES_MAX].decode(errors="ignore") + "..."
