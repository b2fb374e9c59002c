"""The rows of a query that only reads columns: from the table's files, without PostgreSQL or Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from storage.plan import RunnableStored
from storage.spark.result_stream import ResultStream

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.plans.stored_scan import StoredScan


async def stored_rows(
    session: SessionContext, stored: StoredScan, reading: Reading, tag: str, limit_time: Callable[[float | None], None]
) -> ResultStream:
    """Start reading; `tag` is the engine's name for the query."""
    limit_time(reading.timeout)
    version = reading.versions.get(stored.table_oid)
    if version is None:
        raise SluiceError(SqlState.UNDEFINED_TABLE, "a table of this statement was dropped meanwhile")
    return await session.gateway.engine.stored(
        RunnableStored(version, stored.columns, stored.offset, stored.limit), tag
    )
