"""The rows of a query that locks rows, itself or in a subquery, for whoever does more with them than to send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.lake.computed_rows import spark_rows
from gateway.lake.locked_rows import locked_rows, visible, with_subqueries_locked
from gateway.lake.reading import planned
from planner.locking import plan_locking, strongest

if TYPE_CHECKING:
    from gateway.cursor import RowStream
    from gateway.exchange import Exchange
    from gateway.lake.reading import Reading
    from gateway.routing import Routed


async def locked_stream(session: Exchange, routed: Routed, reading: Reading) -> RowStream | None:
    """What Spark gives of the query, once all is locked; None where it is to begin again, on a new reading."""
    locked = await with_subqueries_locked(session, routed.query, reading)
    if locked is None:
        return None
    if not strongest(routed.query):
        return await spark_rows(session, routed, locked, session.tag)
    plan = await planned(session, locked, plan_locking, routed.query)
    batches = await locked_rows(session, plan, locked)
    return None if batches is None else visible(batches, plan)
