"""Which row has broken NOT NULL or CHECK in Spark, for the error's detail.

Spark says which constraint was broken; the rows are computed once more, up to one that breaks it. Where that finds
none, for what they are computed of differs each time, there is no detail.
Source: ExecBuildSlotValueDescription in PostgreSQL's execMain.c.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError
from catalog.model import Table
from gateway.backend import Statement
from gateway.lake.reading import Reading, runnable
from gateway.values.text import text_cells
from planner.enforce import broken_rows
from planner.plan import SparkQuery

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_MAY_SEE: Final = "SELECT pg_catalog.has_table_privilege($1::pg_catalog.oid, 'SELECT')"
# How much is told of a value.
_BYTES_MAX: Final = 64


@asynccontextmanager
async def telling_row(
    session: Exchange, query: SparkQuery, table: Table, checks: Mapping[str, str], reading: Reading
) -> AsyncIterator[None]:
    """Around the execution of `planner.enforce.enforced` of the query: its errors tell the row."""
    try:
        yield
    except SluiceError as error:
        broken = broken_rows(query, table, checks, error)
        if broken is None or not await _may_see(session, table):
            raise
        async with await session.gateway.engine.stream(runnable(broken, reading), session.tag) as stream:
            async for batch in stream:
                if batch.num_rows:
                    error.fields["D"] = f"Failing row contains ({_described(table, batch, reading)})."
                    break
        raise


async def _may_see(session: Exchange, table: Table) -> bool:
    """Who may not read the table is not told what is in its rows."""
    [answer] = await session.backend.run(Statement(_MAY_SEE, (str(table.oid),)))
    return answer.rows[0][0] == b"t"


def _described(table: Table, batch: pa.RecordBatch, reading: Reading) -> str:
    row = batch.slice(0, 1)
    return ", ".join(
        "null" if array.null_count else _clipped(text_cells(array, column.type_oid, reading.output)[0].as_py())
        for column, array in zip(table.columns, row.columns, strict=True)
    )


def _clipped(value: bytes) -> str:
    return value.decode() if len(value) <= _BYTES_MAX else value[:_BYTES_MAX].decode(errors="ignore") + "..."
