"""Parses the text of a statement that is executed in parts, off the event loop, before execution begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.session.offload import offloaded
from planner.plans.routes import Route
from planner.syntax import statements
from planner.syntax.alter_text import CommandText, command_texts, escaped_command_texts, gives_values

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_READ: Final[dict[Route, Callable[[str], Any]]] = {
    Route.EXECUTE: statements.executed,
    Route.EXPLAIN: statements.explained,
    Route.MATERIALIZED: statements.table_as,
    Route.MERGE: statements.merge,
    Route.TABLE_AS: statements.table_as,
    Route.WITH_CHANGES: statements.with_text,
}


def command_reader(session: SessionContext) -> Callable[[str], list[CommandText]]:
    """What reads the commands of ALTER TABLE under the session's `standard_conforming_strings`."""
    standard = session.backend.parameters.get("standard_conforming_strings", "on") == "on"
    return command_texts if standard else escaped_command_texts


async def take_apart(session: SessionContext, analysis: Analysis, routed: Routed) -> None:
    """Parse the parts of the text that its execution reads; `Analysis.taken_apart` returns them afterwards."""
    read = _READ.get(routed.route)
    if routed.route is Route.INSERT and routed.query is not None and routed.query.onConflict is not None:
        read = statements.upsert
    if routed.route is Route.ALTER and routed.query is not None and gives_values(routed.query.utilityStmt):
        read = command_reader(session)
    if read is not None:
        await offloaded(session, len(analysis.sql), analysis.taken_apart, read)
