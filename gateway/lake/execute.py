"""EXECUTE of a prepared statement over lake tables: the statement itself, with its arguments computed by PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gateway.messages import frontend
from gateway.parameters import canonical_parameters
from gateway.portal import Binding, Portal, with_formats
from gateway.prepared import check_bind, evaluated
from planner.statements import executed

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.routing import Routed

Opener = Callable[["Exchange", "Analysis", "Routed", Binding], Awaitable[Portal]]


class ExecutePortal(Portal):
    """The portal of the prepared statement, opened when its arguments are known: by the first execution.

    Where the backend itself carries the statement out (`relays`: rows that it makes for an INSERT), it computes the
    arguments too, and they must not be computed twice.
    """

    def __init__(
        self,
        session: Exchange,
        analysis: Analysis,
        routed: Routed,
        binding: Binding,
        open_portal: Opener,
        *,
        relays: bool,
    ) -> None:
        self.session = session
        self._analysis = analysis
        self._routed = routed
        self._binding = binding
        self._open_portal = open_portal
        self._relays = relays
        self._portal: Portal | None = None
        if analysis.columns is not None:
            self.columns = with_formats(analysis.columns, binding.result_formats)

    async def execute(self, limit: int) -> None:
        if self._portal is None:
            self._portal = await self._open()
        self.started = True
        await self._portal.execute(limit)

    async def _open(self) -> Portal:
        inner, inner_routed = self._routed.inner, self._routed.inner_routed
        assert inner is not None
        assert inner_routed is not None
        assert self._routed.query is not None
        if self._relays:
            return await self._open_portal(self.session, inner, inner_routed, self._binding)
        backend, types = self.session.backend, inner.parameter_types
        name = str(self._routed.query.utilityStmt.name)
        start, end = executed(self._analysis.sql)
        values = tuple(await evaluated(backend, name, types, self._analysis.sql[start:end], start))
        formats = (1,) * len(types)
        await check_bind(backend, frontend.Bind("", name, formats, values, self._binding.result_formats), sync=True)
        binding = Binding(
            statement=name,
            parameters=values,
            parameter_formats=formats,
            result_formats=self._binding.result_formats,
            canonical=await canonical_parameters(backend, types, values, formats, sync=True),
        )
        return await self._open_portal(self.session, inner, inner_routed, binding)

    async def close(self) -> None:
        if self._portal is not None:
            await self._portal.close()
