"""Statements on the lake: one portal class for each kind, in a file of its own, and the table that chooses.

Bottom first: `reading` (what a plan needs to know of the session), `transaction` (stage files, publish at COMMIT),
then the portals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import unsupported
from gateway.lake.alter_sequence import AlterSequencePortal
from gateway.lake.change import DeletePortal, UpdatePortal
from gateway.lake.cluster import ClusterPortal
from gateway.lake.copying import copy_portal
from gateway.lake.create_table import CreateTablePortal
from gateway.lake.cursor import DeclarePortal, FetchPortal
from gateway.lake.execute import ExecutePortal
from gateway.lake.explain import ExplainPortal
from gateway.lake.explain_change import ExplainChangePortal
from gateway.lake.guarded_statement import GuardedPortal
from gateway.lake.indexes import PlainlyPortal, alter_portal
from gateway.lake.insert import InsertRowsPortal
from gateway.lake.insert_query import InsertQueryPortal
from gateway.lake.likely_tables import touches_others
from gateway.lake.made_beside import MadeBesidePortal
from gateway.lake.materialized import CreateMaterializedPortal, RefreshPortal
from gateway.lake.merge import MergePortal
from gateway.lake.schema_only import SchemaOnlyPortal
from gateway.lake.select_locking import select_portal
from gateway.lake.table_as import TableAsPortal
from gateway.lake.table_locks import LockTablePortal
from gateway.lake.temporary_as import TemporaryTablePortal
from gateway.lake.temporary_change import TemporaryChangePortal
from gateway.lake.triggered import TriggeredPortal
from gateway.lake.triggered_copy import TriggeredCopyPortal
from gateway.lake.triggers import changes_view, fires
from gateway.lake.truncate import TruncatePortal
from gateway.lake.types import AlterTypePortal
from gateway.lake.upsert import UpsertPortal, UpsertQueryPortal
from gateway.lake.upsert_with import UpsertWithPortal
from gateway.lake.vacuum import VacuumPortal
from gateway.lake.with_changes import WithChangesPortal
from planner.computable import functions_of_users
from planner.read_encoding import reads_encoding
from planner.references import references
from planner.routes import Route, is_utility
from planner.statements import executed, is_schema_change
from planner.with_parts import reads_late

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.portal import Binding, Portal
    from gateway.routing import Routed


async def open_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal for a statement that is not simply relayed; raises 0A000 for a kind that there is none for.

    One whose functions are likely to touch other tables too, PostgreSQL carries out over copies of all of them.
    """
    if await fires(session, analysis, routed):
        _check_encoding_unread(session, routed)
        making = TriggeredCopyPortal if routed.route is Route.COPY else TriggeredPortal
        return making(session, analysis, routed, binding)
    if await touches_others(session, routed):
        _check_encoding_unread(session, routed)
        return GuardedPortal(session, analysis, routed, binding)
    return _open_plain(session, analysis, routed, binding)


async def open_inner(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal for a statement inside another."""
    if await fires(session, analysis, routed):
        raise unsupported("a statement that fires triggers inside of another")
    return _open_plain(session, analysis, routed, binding)


def _open_plain(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    make = _PORTALS.get(routed.route)
    if make is None:
        raise unsupported(routed.route.value.upper())
    _check_encoding_unread(session, routed)
    return make(session, analysis, routed, binding)


def _check_encoding_unread(session: Exchange, routed: Routed) -> None:
    """0A000 for what would be told that the client's encoding is UTF8, which is that of the gateway's own work."""
    each: Routed | None = routed if session.encoding.converts else None
    while each is not None:
        if each.query is not None and (function := reads_encoding(each.query, session.gateway.builtins)) is not None:
            raise unsupported(f"{function} while client_encoding is {session.encoding.name}")
        each = each.inner_routed


def insert_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The way that suits the statement."""
    assert routed.query is not None
    if routed.query.onConflict is not None:
        excluded = int(routed.query.onConflict.exclRelIndex) > 0  # a row of the target, which so stands there twice
        reads = lake_references(routed) > 1 + excluded or functions_of_users(routed.query)
        upserting = UpsertQueryPortal if reads else UpsertPortal
        return upserting(session, analysis, routed, binding)
    if lake_references(routed) > 1:
        return InsertQueryPortal(session, analysis, routed, binding)
    return InsertRowsPortal(session, analysis, routed, binding)


def with_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """WITH queries of which some change data: part by part, where that is PostgreSQL's order."""
    assert routed.query is not None
    if reads_late(routed.query):
        return UpsertWithPortal(session, analysis, routed, binding)
    return WithChangesPortal(session, analysis, routed, binding, open_inner)


def execute_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """EXECUTE, with the portal of what was prepared inside it."""
    inner = routed.inner_routed
    assert inner is not None
    start, end = analysis.taken_apart(executed)
    # Functions among the arguments are watched where these are computed beforehand.
    plain = "(" not in analysis.sql[start + 1 : end]
    relays = inner.route is Route.INSERT and lake_references(inner) == 1 and plain
    return ExecutePortal(session, analysis, routed, binding, open_portal, relays=relays)


def explain_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """EXPLAIN, with what opens the explained statement's own portal where it is carried out."""
    if routed.inner is not None and is_schema_change(routed.inner.sql):
        return ExplainChangePortal(session, analysis, routed, binding)
    inner = routed.inner_routed
    if inner is not None and inner.route is Route.EXECUTE:
        inner = inner.inner_routed
    assert inner is not None
    assert inner.query is not None
    if changes_view(inner):
        raise unsupported("EXPLAIN of a change of a view that has INSTEAD OF triggers")
    rehearsed = inner.route is Route.MERGE
    if inner.route is Route.INSERT:
        rehearsed = inner.query.onConflict is not None or lake_references(inner) == 1
    return ExplainPortal(session, analysis, routed, binding, open_inner, rehearsed=rehearsed)


def temporary_portal(session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """A temporary table is made, or changed."""
    assert routed.query is not None
    making = is_utility(routed.query)
    return (TemporaryTablePortal if making else TemporaryChangePortal)(session, analysis, routed, binding)


def lake_references(routed: Routed) -> int:
    """How often lake tables stand in the statement, the target included."""
    lake = set(routed.lake)
    return sum(oid in lake for oid in references(routed.query))


_PORTALS: Final[dict[Route, Callable[[Exchange, Analysis, Routed, Binding], Portal]]] = {
    Route.SELECT: select_portal,
    Route.INSERT: insert_portal,
    Route.UPDATE: UpdatePortal,
    Route.DELETE: DeletePortal,
    Route.MERGE: MergePortal,
    Route.WITH_CHANGES: with_portal,
    Route.COPY: copy_portal(open_inner),
    Route.TABLE_AS: TableAsPortal,
    Route.TEMPORARY: temporary_portal,
    Route.MATERIALIZED: CreateMaterializedPortal,
    Route.REFRESH: RefreshPortal,
    Route.TRUNCATE: TruncatePortal,
    Route.LOCK: LockTablePortal,
    Route.CREATE_TABLE: CreateTablePortal,
    Route.MADE: MadeBesidePortal,
    Route.ALTER: alter_portal,
    Route.SCHEMA_ONLY: SchemaOnlyPortal,
    Route.ALTER_SEQUENCE: AlterSequencePortal,
    Route.ALTER_TYPE: AlterTypePortal,
    Route.CONCURRENTLY: PlainlyPortal,
    Route.VACUUM: VacuumPortal,
    Route.CLUSTER: ClusterPortal,
    Route.EXPLAIN: explain_portal,
    Route.GUARDED: GuardedPortal,
    Route.DECLARE: DeclarePortal,
    Route.FETCH: FetchPortal,
    Route.EXECUTE: execute_portal,
}
