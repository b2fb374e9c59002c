"""Finds whether a statement fires user-defined triggers on lake tables, also by actions of foreign keys.

Committed triggers are cached with the step of the schema log that every analysis reports; a transaction that has
changed schemas itself asks its backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from catalog.schema.triggers import FIRED, Event, fired_from_json
from gateway.backend.own_statement import Statement
from gateway.statement.implicit_functions import runs_functions
from gateway.statement.range_variable import resolve
from planner.plans.routes import Route, command
from planner.tree.nodes import Node, walk

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_CHANGES: Final = frozenset({Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE, Route.WITH_CHANGES})
_EVENTS: Final[Mapping[Route, Event]] = {
    Route.INSERT: Event.INSERT,
    Route.UPDATE: Event.UPDATE,
    Route.DELETE: Event.DELETE,
    Route.MERGE: Event.INSERT | Event.UPDATE | Event.DELETE,
}
_UNREADING: Final = (Event.INSERT, Event.TRUNCATE)
_DO_UPDATE: Final = 2  # OnConflictAction of nodes.h
_VIEW: Final = "v"


async def fires(session: SessionContext, analysis: Analysis, routed: Routed) -> bool:
    """Whether a statement on the lake may fire any, including INSTEAD OF triggers of a view."""
    changes = list(_changes(routed))
    if not changes:
        return False
    if changes_view(routed):
        return True
    fired = await fired_triggers(session, analysis)
    if any(fired.get(oid, 0) & event for oid, event, _ in changes):
        return True
    return routed.route is Route.TRUNCATE and await _fires_beside(session, routed)


async def _fires_beside(session: SessionContext, routed: Routed) -> bool:
    """Whether a TRUNCATE of lake tables is also of temporary ones that have triggers."""
    assert routed.query is not None
    named = routed.query.utilityStmt.relations
    if len(named) == len(routed.lake):
        return False
    beside = [oid for each in named if (oid := await resolve(session, each)) and oid not in routed.lake]
    return await runs_functions(session, beside)


async def fired_triggers(session: SessionContext, analysis: Analysis) -> Mapping[int, Event]:
    """For lake tables by OID, which changes fire triggers."""
    mark = analysis.mark
    if not mark.own:
        return await session.gateway.store.triggers.at(mark.step)
    [answer] = await session.backend.run(Statement(FIRED), sync=session.simple)
    return fired_from_json(answer.rows[0][1] or b"{}")


def _changes(routed: Routed) -> Iterator[tuple[int, Event, bool]]:
    """The changed relation, the kind of change, and whether it is a view."""
    query = routed.query
    if query is None:
        return
    if routed.route is Route.COPY and query.utilityStmt.is_from:
        yield routed.lake[0], Event.INSERT, False
    elif routed.route is Route.TRUNCATE:
        yield from ((oid, Event.TRUNCATE, False) for oid in routed.lake)
    elif routed.route is Route.WITH_CHANGES:
        yield from _all_changes(query)
    elif routed.route in _CHANGES:
        yield _change(query)


def _all_changes(query: Node) -> Iterator[tuple[int, Event, bool]]:
    """The changes of a query and of its WITH."""
    for node in walk(query):
        if node.type == "QUERY" and node.resultRelation:
            yield _change(node)


def changed_relations(query: Node | None) -> set[int]:
    """The tables and views that a query and its WITH change; none for another statement."""
    if query is None or query.type != "QUERY":
        return set()
    return {oid for oid, _, _ in _all_changes(query)}


def _change(query: Node) -> tuple[int, Event, bool]:
    event = _EVENTS[command(query)]
    if query.onConflict is not None and int(query.onConflict.action) == _DO_UPDATE:
        event |= Event.UPDATE
    target = query.rtable[int(query.resultRelation) - 1]
    return int(target.relid), event, target.relkind == _VIEW


def changes_view(routed: Routed) -> bool:
    """Whether INSTEAD OF triggers replace the statement's change of a view."""
    return any(is_view for _, _, is_view in _changes(routed))


def targets(routed: Routed) -> set[int]:
    """The tables and views that the statement changes."""
    return {oid for oid, _, _ in _changes(routed)}


def needs_rows(routed: Routed) -> set[int]:
    """Of the changed tables, those whose existing rows are read: all but those that only get new rows or lose all."""
    query = routed.query
    conflict = query is not None and query.type == "QUERY" and query.onConflict is not None
    return {oid for oid, event, is_view in _changes(routed) if conflict or (event not in _UNREADING and not is_view)}
