"""The result of routing: the statement's route, and what routing has learnt of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.plans import routes
from planner.plans.routes import Route
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.backend.meanings import Epoch
    from gateway.session.lake_cursor import Cursor


@dataclass(slots=True)
class Routed:
    """A statement's route, with what routing has learnt.

    `lake` holds the OIDs of the lake tables in the statement, or, for COPY and TRUNCATE, of its targets in order.
    `inner` is the analysis of the statement inside (EXPLAIN, CREATE TABLE AS, COPY (query) TO, DECLARE, EXECUTE).
    `cursor` is the cursor of FETCH and MOVE. `late`: the same tree may get another route at its next Bind.
    `temporary_at`: it named temporary tables alone at that time, and PostgreSQL executes it. `is_calm`: what PostgreSQL
    executes does not change what names mean.
    """

    route: Route
    query: Node | None = None
    lake: tuple[int, ...] = ()
    inner: Analysis | None = None
    inner_routed: Routed | None = None
    options: dict[str, str] = field(default_factory=dict)
    cursor: Cursor | None = None
    late: bool = False
    temporary_at: Epoch | None = None
    is_calm: bool = False

    @property
    def publishes(self) -> bool:
        """Whether PostgreSQL alone executes it, and its transaction's commit publishes the change in the lake's
        catalog.
        """
        query = self.query
        return (
            self.route is Route.RELAY
            and query is not None
            and routes.is_utility(query)
            and query.utilityStmt.type in routes.PUBLISHING
        )

    @property
    def is_relayed(self) -> bool:
        """Whether PostgreSQL executes it unguarded."""
        return self.route is Route.RELAY


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A prepared statement's own text, without SQL's PREPARE around it."""

    text: str
    parameter_types: tuple[int, ...]
