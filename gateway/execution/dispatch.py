"""The table of lake statements: for each kind, the portal class that executes it.

From the bottom: `reading` (what a plan needs of the session), `transaction` (stage files, publish at COMMIT), then the
portals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import unsupported
from gateway.execution.changes.insert import InsertRowsPortal
from gateway.execution.changes.insert_query import InsertQueryPortal
from gateway.execution.changes.merge import MergePortal
from gateway.execution.changes.select_locking import select_portal
from gateway.execution.changes.update_delete import DeletePortal, UpdatePortal
from gateway.execution.changes.upsert import UpsertPortal, UpsertQueryPortal
from gateway.execution.changes.with_changes import WithChangesPortal
from gateway.execution.copy.copy_direction import copy_portal
from gateway.execution.copy.trigger_copy import TriggeredCopyPortal
from gateway.execution.cursors.cursor_commands import DeclarePortal, FetchPortal
from gateway.execution.explain.explain import ExplainPortal
from gateway.execution.explain.explain_change import ExplainChangePortal
from gateway.execution.functions.adding_triggers import AddingPortal
from gateway.execution.functions.do_call import GuardedPortal
from gateway.execution.functions.trigger_lookup import changes_view, fires
from gateway.execution.functions.trigger_statement import TriggeredPortal, VolatilePortal
from gateway.execution.functions.trigger_truncate import TriggeredTruncatePortal
from gateway.execution.locks.table_locks import LockTablePortal
from gateway.execution.maintenance.cluster import ClusterPortal
from gateway.execution.maintenance.vacuum import VacuumPortal
from gateway.execution.procedures.procedure_portal import ProcedurePortal
from gateway.execution.reading.execute_prepared import ExecutePortal
from gateway.execution.reading.function_tables import Use, use_of_functions
from gateway.execution.schema.alter_sequence import AlterSequencePortal
from gateway.execution.schema.alter_type import AlterTypePortal
from gateway.execution.schema.create_database import CreateDatabasePortal
from gateway.execution.schema.create_index import PlainlyPortal, alter_portal
from gateway.execution.schema.create_object import MadeBesidePortal
from gateway.execution.schema.create_table_as import TableAsPortal
from gateway.execution.schema.materialized_view import CreateMaterializedPortal, RefreshPortal
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.execution.schema.table_layout import create_table_portal
from gateway.execution.schema.truncate import TruncatePortal
from gateway.execution.temporary.temporary_as import TemporaryTablePortal
from gateway.execution.temporary.temporary_change import TemporaryChangePortal
from gateway.statement.kept_analyses import is_plain
from planner.plans.computable import functions_of_users
from planner.plans.routes import HOLD, Route, is_utility
from planner.plans.with_parts import refuse_late
from planner.syntax.statements import executed, is_schema_change
from planner.tree.read_encoding import reads_encoding
from planner.tree.references import references

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding, Portal
    from gateway.statement.routed import Routed


async def open_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal for a statement that is not simply relayed; raises 0A000 for an unsupported kind.

    If its functions are likely to use other tables too, PostgreSQL executes it over copies of all of them.
    """
    if await fires(session, analysis, routed):
        _check_encoding_unread(session, routed)
        return _TRIGGERED.get(routed.route, TriggeredPortal)(session, analysis, routed, binding)
    use = await use_of_functions(session, routed)
    if use is Use.TABLES or await _walks_functions(session, routed):
        _check_encoding_unread(session, routed)
        return GuardedPortal(session, analysis, routed, binding)
    if use is Use.VOLATILE and _changes_by_rows(routed):
        _check_encoding_unread(session, routed)
        return VolatilePortal(session, analysis, routed, binding)
    return _open_plain(session, analysis, routed, binding)


async def _walks_functions(session: SessionContext, routed: Routed) -> bool:
    """Whether it declares a cursor that calls functions of users at each FETCH."""
    if routed.route is not Route.DECLARE or routed.query is None or routed.inner_routed is None:
        return False
    if int(routed.query.utilityStmt.options) & HOLD:
        return False
    return await use_of_functions(session, routed.inner_routed) is not Use.PLAIN


def _changes_by_rows(routed: Routed) -> bool:
    """Whether it is a change whose new or chosen rows come from lake rows."""
    if routed.route is Route.INSERT:
        assert routed.query is not None
        return routed.query.onConflict is not None or lake_references(routed) > 1
    return routed.route in {Route.UPDATE, Route.DELETE, Route.MERGE, Route.WITH_CHANGES}


async def open_inner(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal for a statement inside of another."""
    if await fires(session, analysis, routed):
        raise unsupported("a statement that fires triggers inside of another")
    return _open_plain(session, analysis, routed, binding)


def _open_plain(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    make = _PORTALS.get(routed.route)
    if make is None:
        raise unsupported(routed.route.value.upper())
    _check_encoding_unread(session, routed)
    portal = make(session, analysis, routed, binding)
    portal.is_calm = is_plain(analysis, routed, session.gateway.builtins)
    return portal


def _check_encoding_unread(session: SessionContext, routed: Routed) -> None:
    """Raise 0A000 for a statement that would read client_encoding: it would get UTF8, which the gateway's work uses."""
    each: Routed | None = routed if session.encoding.converts else None
    while each is not None:
        if each.query is not None and (function := reads_encoding(each.query, session.gateway.builtins)) is not None:
            raise unsupported(f"{function} while client_encoding is {session.encoding.name}")
        each = each.inner_routed


def insert_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """The portal for the kind of INSERT."""
    assert routed.query is not None
    if routed.query.onConflict is not None:
        excluded = int(routed.query.onConflict.exclRelIndex) > 0  # it names the target row twice
        reads = lake_references(routed) > 1 + excluded or functions_of_users(routed.query)
        upserting = UpsertQueryPortal if reads else UpsertPortal
        return upserting(session, analysis, routed, binding)
    if lake_references(routed) > 1:
        return InsertQueryPortal(session, analysis, routed, binding)
    return InsertRowsPortal(session, analysis, routed, binding)


def with_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """Data-modifying WITH queries, part by part."""
    assert routed.query is not None
    refuse_late(routed.query)
    return WithChangesPortal(session, analysis, routed, binding, open_inner)


def execute_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """EXECUTE, with the portal of the prepared statement inside."""
    inner = routed.inner_routed
    assert inner is not None
    start, end = analysis.taken_apart(executed)
    # Functions in arguments that are computed beforehand run under the function guard.
    plain = "(" not in analysis.sql[start + 1 : end]
    relays = inner.route is Route.INSERT and lake_references(inner) == 1 and plain
    return ExecutePortal(session, analysis, routed, binding, open_portal, relays=relays)


def explain_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """EXPLAIN, with the function that opens the explained statement's portal for ANALYZE."""
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


def guarded_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """A statement that calls functions of users; CALL and DO may end transactions."""
    query = routed.query
    ends = query is not None and is_utility(query) and query.utilityStmt.type in ("CALLSTMT", "DOSTMT")
    return (ProcedurePortal if ends else GuardedPortal)(session, analysis, routed, binding)


def temporary_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """Makes or changes a temporary table."""
    assert routed.query is not None
    making = is_utility(routed.query)
    return (TemporaryTablePortal if making else TemporaryChangePortal)(session, analysis, routed, binding)


def lake_references(routed: Routed) -> int:
    """How often lake tables are named in the statement, including the target."""
    lake = set(routed.lake)
    return sum(oid in lake for oid in references(routed.query))


_TRIGGERED: Final[dict[Route, type[TriggeredPortal]]] = {
    Route.COPY: TriggeredCopyPortal,
    Route.INSERT: AddingPortal,
    Route.TRUNCATE: TriggeredTruncatePortal,
}
_PORTALS: Final[dict[Route, Callable[[SessionContext, Analysis, Routed, Binding], Portal]]] = {
    Route.SELECT: select_portal,
    Route.INSERT: insert_portal,
    Route.UPDATE: UpdatePortal,
    Route.DELETE: DeletePortal,
    Route.MERGE: MergePortal,
    Route.WITH_CHANGES: with_portal,
    Route.COPY: copy_portal,
    Route.TABLE_AS: TableAsPortal,
    Route.TEMPORARY: temporary_portal,
    Route.MATERIALIZED: CreateMaterializedPortal,
    Route.REFRESH: RefreshPortal,
    Route.TRUNCATE: TruncatePortal,
    Route.LOCK: LockTablePortal,
    Route.CREATE_TABLE: create_table_portal,
    Route.MADE: MadeBesidePortal,
    Route.ALTER: alter_portal,
    Route.SCHEMA_ONLY: SchemaOnlyPortal,
    Route.ALTER_SEQUENCE: AlterSequencePortal,
    Route.ALTER_TYPE: AlterTypePortal,
    Route.CONCURRENTLY: PlainlyPortal,
    Route.CREATE_DATABASE: CreateDatabasePortal,
    Route.VACUUM: VacuumPortal,
    Route.CLUSTER: ClusterPortal,
    Route.EXPLAIN: explain_portal,
    Route.GUARDED: guarded_portal,
    Route.DECLARE: DeclarePortal,
    Route.FETCH: FetchPortal,
    Route.EXECUTE: execute_portal,
}
