"""The rows of a cursor without row locks: a stream, with places for WHERE CURRENT OF
(`planner.plans.updatable_cursor`).

A query that PostgreSQL computes has no places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.execution.reading.query_rows import query_rows
from planner.plans.computable import functions_of_users
from planner.plans.select import plan_select
from planner.plans.updatable_cursor import plan_updatable, updatable_table

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed


class UnlockedCursorRows:
    """`run` at the first FETCH.

    `places` tells which column has a row's place, by table; `paths` are that table's files.
    """

    def __init__(  # noqa: PLR0917
        self,
        session: SessionContext,
        analysis: Analysis,
        routed: Routed,
        binding: Binding,
        reading: Reading,
        tag: str,
        *,
        updatable: bool,
    ) -> None:
        """Without `updatable`, the transaction ends before WHERE CURRENT OF could name a row. Call
        `check_rows` first.
        """
        self._query = session, analysis, routed, binding, reading, tag
        table = updatable_table(routed.query) if updatable else None
        version = None if table is None else reading.versions.get(table)
        self.places: Mapping[int, Sequence[int]] = {}
        self.paths: Sequence[str] = ()
        if version is not None:
            self.places = {version.table.oid: [len(analysis.columns or ())]}
            self.paths = [file.path for file in version.files]

    async def run(self) -> RowStream:
        """Start Spark."""
        session, _, routed, *_ = self._query
        if functions_of_users(routed.query):
            await session.cursors.watch()
        plan = plan_updatable if self.places else plan_select
        return await query_rows(*self._query, plan=plan, only_lake_types=False)
