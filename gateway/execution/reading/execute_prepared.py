"""EXECUTE of a prepared statement over lake tables: the statement itself, with its arguments computed by PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from gateway.backend.bind_parameters import canonical_parameters
from gateway.backend.own_statement import Statement
from gateway.execution.shadow.function_guard import guarding
from gateway.session.offload import offloaded
from gateway.statement.portal import Binding, Portal, with_formats
from gateway.statement.prepared_statements import check_bind, evaluated
from gateway.wire.messages import frontend
from planner.syntax.statements import executed, prepared
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_PREPARED: Final = (
    "SELECT statement FROM pg_catalog.pg_prepared_statements"
    " WHERE name OPERATOR(pg_catalog.=) $1::pg_catalog.text AND from_sql"
)
Opener = Callable[["SessionContext", "Analysis", "Routed", Binding], Awaitable[Portal]]


async def executed_binding(
    session: SessionContext, analysis: Analysis, routed: Routed, formats: tuple[int, ...]
) -> Binding:
    """The binding of the prepared statement: the arguments of EXECUTE, computed by PostgreSQL."""
    inner = routed.inner
    assert inner is not None
    assert routed.query is not None
    backend, types = session.backend, inner.parameter_types
    name = name_of(routed.query.utilityStmt.name)
    start, end = analysis.taken_apart(executed)
    arguments = analysis.sql[start:end]
    async with guarding(session) if "(" in arguments[1:] else nullcontext():  # which may call functions
        values = tuple(await evaluated(backend, name, types, arguments, start))
    binary = (1,) * len(types)
    await check_bind(backend, frontend.Bind("", name, binary, values, formats), sync=True)
    return Binding(
        statement=name,
        parameters=values,
        parameter_formats=binary,
        result_formats=formats,
        canonical=await canonical_parameters(backend, types, values, binary, sync=True),
    )


async def prepared_text(session: SessionContext, name: str) -> str | None:
    """The text of the statement that PREPARE has given this name; None if there is none."""
    [found] = await session.backend.run(Statement(_PREPARED, (name,)))
    if not found.rows:
        return None
    whole = str(found.rows[0][0] or b"", "utf-8")
    return await offloaded(session, len(whole), lambda: whole[prepared(whole) :])


class ExecutePortal(Portal):
    """The portal of the prepared statement, opened by the first execution, when its arguments are known.

    If the backend itself executes the statement (`relays`: rows that it makes for an INSERT), it computes the
    arguments too, and they must not be computed twice.
    """

    def __init__(
        self,
        session: SessionContext,
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
        if self._relays:
            return await self._open_portal(self.session, inner, inner_routed, self._binding)
        formats = self._binding.result_formats
        binding = await executed_binding(self.session, self._analysis, self._routed, formats)
        return await self._open_portal(self.session, inner, inner_routed, binding)

    async def close(self) -> None:
        if self._portal is not None:
            await self._portal.close()
