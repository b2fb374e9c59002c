"""What routing has found: who carries a statement out, and what was learnt on the way to that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.plans import routes
from planner.plans.routes import Route
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.lake_cursor import Cursor


@dataclass(slots=True)
class Routed:
    """A route with what was learnt on the way to it.

    `lake` holds the OIDs of the lake tables in the statement, or, for COPY and TRUNCATE, of its targets in order;
    `inner` is the analysis of the statement inside (EXPLAIN, CREATE TABLE AS, COPY (query) TO, DECLARE, EXECUTE).
    `cursor` is what FETCH and MOVE read. `late`: the same tree may go another way when it is bound the next time.
    """

    route: Route
    query: Node | None = None
    lake: tuple[int, ...] = ()
    inner: Analysis | None = None
    inner_routed: Routed | None = None
    options: dict[str, str] = field(default_factory=dict)
    cursor: Cursor | None = None
    late: bool = False

    @property
    def publishes(self) -> bool:
        """Whether PostgreSQL alone carries it out, and the lake's catalog has it from the transaction's commit."""
        query = self.query
        return (
            self.route is Route.RELAY
            and query is not None
            and routes.is_utility(query)
            and query.utilityStmt.type in routes.PUBLISHING
        )

    @property
    def is_relayed(self) -> bool:
        """Whether PostgreSQL carries it out unwatched."""
        return self.route is Route.RELAY


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A prepared statement as the backend has it: its own text, without SQL's PREPARE around it."""

    text: str
    parameter_types: tuple[int, ...]
