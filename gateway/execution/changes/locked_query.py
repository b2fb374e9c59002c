"""The rows of a query that locks rows, itself or in a subquery, for statements that process them further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.execution.changes.locked_rows import locked_rows, visible, with_subqueries_locked
from gateway.execution.reading.plan_context import planned
from gateway.execution.reading.query_rows import spark_rows
from planner.plans.locking_plan import plan_locking, strongest

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed


async def locked_stream(session: SessionContext, routed: Routed, reading: Reading) -> RowStream | None:
    """The query's rows from Spark, once all are locked; None if it must begin again, on a new reading."""
    locked = await with_subqueries_locked(session, routed.query, reading)
    if locked is None:
        return None
    if not strongest(routed.query):
        return await spark_rows(session, routed, locked, session.tag)
    plan = await planned(session, locked, plan_locking, routed.query)
    batches = await locked_rows(session, plan, locked)
    return None if batches is None else visible(batches, plan)
