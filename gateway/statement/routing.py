"""Finds a statement's route by its analysis, and asks the catalog which of its relations are lake tables.

The rules are in `planner.plans.routes`. This module adds questions to the catalog: PostgreSQL resolves names in
utility statements, and analyses statements inside of statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import SluiceError, unsupported
from gateway.backend.analysis import Analysis
from gateway.backend.arrays import number_array
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import lake_relations
from gateway.statement.implicit_functions import runs_functions
from gateway.statement.range_variable import quoted, quoted_name, resolve
from gateway.statement.routed import PreparedText, Routed
from gateway.statement.statement_parts import take_apart
from gateway.statement.temporary_tables import is_calm, names_only, told_of_tables
from planner.plans import routes
from planner.plans.locking_plan import are_locked_apart, first_strength
from planner.plans.routes import Route
from planner.syntax import statements
from planner.syntax.alter_text import referenced
from planner.syntax.asked_settings import asked_settings
from planner.syntax.concurrently_option import concurrent_command
from planner.syntax.table_options import is_laid_out, refuse_own_options
from planner.syntax.transaction_commands import transaction_command
from planner.syntax.vacuum_options import vacuum_command
from planner.tree.nodes import Node, name_of, walk
from planner.tree.parsed_trees import parsed
from planner.tree.references import calls_users, changed, domains, learn, relations, runs_unseen, views
from planner.tree.system_attributes import check_system_columns
from planner.tree.tree_rights import demands

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from gateway.session.session_context import SessionContext

_PREPARED: Final = (
    "SELECT statement, from_sql, parameter_types::pg_catalog.oid[]::pg_catalog.text"
    " FROM pg_catalog.pg_prepared_statements WHERE name OPERATOR(pg_catalog.=) $1"
)
# The tables of these names; for an index, its table.
_TABLES: Final = """
SELECT coalesce(i.indrelid, c.oid)::bigint FROM pg_catalog.json_array_elements_text($1) n
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(n) LEFT
    JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
"""
# The relations that these views read, also through other views; a view may read itself.
_READ_BY_VIEWS: Final = f"""
WITH RECURSIVE read (oid) AS (
    SELECT pg_catalog.unnest($1::pg_catalog.oid[])
    UNION SELECT d.refobjid FROM read v JOIN pg_catalog.pg_rewrite r ON r.ev_class OPERATOR(pg_catalog.=) v.oid
        AND r.ev_type OPERATOR(pg_catalog.=) '1'
    JOIN pg_catalog.pg_depend d ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) r.oid
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
)
SELECT oid::pg_catalog.int8 FROM read WHERE oid OPERATOR(pg_catalog.>=) {FIRST_USER_OID}
"""
_REINDEX_SCHEMA: Final = 2
_VIEW: Final = "v"  # it has INSTEAD OF triggers
# They change all objects of a role, without naming them.
_UNNAMED: Final = frozenset({"DROPOWNEDSTMT", "REASSIGNOWNEDSTMT"})


async def route(session: SessionContext, analysis: Analysis) -> Routed:
    """The statement's route."""
    routed = await _route(session, analysis)
    await take_apart(session, analysis, routed)
    return routed


async def _route(session: SessionContext, analysis: Analysis) -> Routed:
    size = analysis.tree.size
    tree = await offloaded(session, size, parsed, analysis.tree)
    if (query := routes.main_query(tree)) is None:
        return Routed(Route.RELAY)
    if routes.is_utility(query):
        return await _utility(session, analysis, query)
    await offloaded(session, size, _learn, query)
    named = relations(query)
    routed = await _optimizable(session, tree, query, named, size)
    if routed.lake:
        analysis.views = await offloaded(session, size, views, tree)
        analysis.demands = await offloaded(session, size, demands, tree)
        analysis.asked_settings = await offloaded(session, size, asked_settings, analysis.tree, tree)
    return routed


def _learn(query: Node) -> None:
    learn(query)
    first_strength(query)


async def _optimizable(session: SessionContext, tree: Any, query: Node, named: frozenset[int], size: int) -> Routed:
    """Route a query or a change of rows; `named` are all relations in it."""
    of_users = frozenset(oid for oid in named if oid >= FIRST_USER_OID)
    lake = frozenset[int]()
    if not session.meanings.are_own(of_users):
        lake = await lake_relations(session, of_users)
    if not lake:
        return await _at_postgresql(session, tree, query, of_users, size)
    await offloaded(session, size, check_system_columns, tree)
    kind = routes.command(query)
    if query.hasModifyingCTE or await offloaded(session, size, are_locked_apart, query):
        return Routed(Route.WITH_CHANGES, query, tuple(sorted(lake)))
    if kind is not Route.SELECT:
        target = query.rtable[int(query.resultRelation) - 1]
        if int(target.relid) not in lake and target.relkind != _VIEW:
            return Routed(Route.TEMPORARY, query, tuple(sorted(lake)))
    return Routed(kind, query, tuple(sorted(lake)))


async def _at_postgresql(
    session: SessionContext, tree: Any, query: Node, of_users: frozenset[int], size: int
) -> Routed:
    """Route a query or a change of rows that names no lake table."""
    builtins, analysed_at = session.gateway.builtins, session.meanings.epoch
    late = bool(of_users)  # names of user tables may have another meaning the next time
    if await offloaded(session, size, runs_unseen, tree, builtins):
        return Routed(Route.GUARDED, query, late=late)
    changes, made = await offloaded(session, size, changed, tree), await offloaded(session, size, domains, tree)
    told = await told_of_tables(session, of_users, changes, made)
    if told.runs_functions:
        return Routed(Route.GUARDED, query, late=late)
    calm = await offloaded(session, size, is_calm, tree, builtins)
    is_temporary = told.is_temporary and calm and await offloaded(session, size, names_only, tree, of_users)
    return Routed(Route.RELAY, query, late=late, is_calm=calm, temporary_at=analysed_at if is_temporary else None)


async def _utility(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    kind = routes.command(query)
    if kind in _UTILITIES:
        return await _UTILITIES[kind](session, analysis, query)
    await _judge(session, query.utilityStmt)
    if kind is Route.RELAY:
        return await _relayed(session, query)
    return Routed(kind, query)


async def _relayed(session: SessionContext, query: Node) -> Routed:
    """Route a statement that PostgreSQL alone executes. In a client's block it is deferred if other changes are,
    because it may build on them, and if it locks shared objects.
    """
    transaction, utility = session.transaction, query.utilityStmt
    if transaction.open and not transaction.implicit:
        if transaction.deferred.pending and utility.type in routes.MADE_BESIDE:
            return Routed(Route.MADE, query, late=True)
        repeated = transaction.deferred.pending and utility.type in routes.REPEATABLE
        if repeated or await _shared(session, routes.locked(utility)) is not None:
            return Routed(Route.SCHEMA_ONLY, query, late=True)
    return Routed(Route.RELAY, query)


async def _shared(session: SessionContext, relation: Node | None) -> int | None:
    """The OID of the view or sequence that a RangeVar names, if other sessions can see it."""
    oid = None if relation is None else await resolve(session, relation)
    return oid if oid is not None and await session.gateway.store.is_shared(oid) else None


async def _alter_sequence(session: SessionContext, _: Analysis, query: Node) -> Routed:
    await _judge(session, query.utilityStmt)
    transaction = session.transaction
    if transaction.open and not transaction.implicit:
        oid = await _shared(session, query.utilityStmt.sequence)
        if oid is not None:
            return Routed(Route.ALTER_SEQUENCE, query, late=True)
    return Routed(Route.RELAY, query)


async def _is_concurrent(session: SessionContext, utility: Node) -> bool:
    """Whether it is DROP INDEX CONCURRENTLY, or REINDEX CONCURRENTLY of the lake."""
    return concurrent_command(utility) is not None and await _is_of_lake(session, utility)


async def _is_of_lake(session: SessionContext, utility: Node) -> bool:
    """Whether REINDEX names an index or table of the lake, or a schema that may have some. For DROP INDEX this does
    not matter: other indexes are temporary, and PostgreSQL drops those without CONCURRENTLY too.
    """
    if utility.type == "DROPSTMT":
        return True
    if utility.fields.get("relation") is None:
        return int(utility.kind) == _REINDEX_SCHEMA
    return bool(await lake_relations(session, await _tables(session, [quoted_name(utility.relation)])))


async def _judge(session: SessionContext, utility: Node) -> None:
    """Fail a schema change whose transaction is doomed, or that names one of the tables that doomed it."""
    enlistment = session.transaction.enlistment
    disturbed = await enlistment.disturbed()
    if not disturbed:
        return
    named = [await resolve(session, node) for node in walk(utility) if node.type == "RANGEVAR"]
    dropped = set(_dropped(utility.objects)) if utility.type == "DROPSTMT" else set()
    for oid, name in disturbed.items():
        if oid in named or name in dropped:
            await enlistment.refuse_changed(oid)


def _dropped(objects: Any) -> Iterator[str]:
    """The last part of each name in DROP."""
    for each in objects:
        last = each[-1] if isinstance(each, tuple) else each
        if isinstance(last, str):
            yield name_of(last)


async def _schema_only(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    """Route a schema change of lake objects alone; an index stands for its table."""
    utility = query.utilityStmt
    await _judge(session, utility)
    if await _is_concurrent(session, utility):
        return Routed(Route.CONCURRENTLY, query)
    if utility.type in _UNNAMED:
        return Routed(Route.SCHEMA_ONLY, query)
    if utility.type != "DROPSTMT":
        relation = utility.fields.get("relation") or utility.fields.get("table")
        names = [] if relation is None else [quoted_name(relation)]
    elif statements.drops_tables(analysis.sql):
        names = [quoted(each) for each in utility.objects]
    else:
        return Routed(Route.SCHEMA_ONLY, query)
    lake = await lake_relations(session, found := await _tables(session, names) if names else [])
    if lake and lake == set(found):
        return Routed(Route.SCHEMA_ONLY, query, tuple(sorted(lake)))
    return await _relayed(session, query)


async def _tables(session: SessionContext, names: Sequence[str]) -> list[int]:
    """The tables of these names; for an index, its table."""
    [result] = await session.backend.run(Statement(_TABLES, (json.dumps(names),)), sync=session.simple)
    return [int(row[0]) for row in result.rows if row[0] is not None]


async def _create_table(session: SessionContext, _: Analysis, query: Node) -> Routed:
    """Route CREATE TABLE, if it references lake tables and names no other tables but itself."""
    utility = query.utilityStmt
    await _judge(session, utility)
    parents = referenced(utility)
    if len(parents) + 1 < sum(node.type == "RANGEVAR" for node in walk(utility)):
        return Routed(Route.CREATE_TABLE if is_laid_out(utility) else Route.RELAY, query)
    found = {await resolve(session, parent) for parent in parents} - {None}
    lake = await lake_relations(session, (oid for oid in found if oid))
    handled = (lake and lake == found) or is_laid_out(utility)
    return Routed(Route.CREATE_TABLE if handled else Route.RELAY, query, tuple(sorted(lake)))


async def _alter(session: SessionContext, _: Analysis, query: Node) -> Routed:
    await _judge(session, query.utilityStmt)
    oid = await resolve(session, query.utilityStmt.relation)
    lake = await lake_relations(session, [oid] if oid else [])
    if lake:
        return Routed(Route.ALTER, query, tuple(lake))
    # Existing rows get defaults and new types, and are checked.
    watched = query.utilityStmt.type == "ALTERTABLESTMT" and (
        calls_users(query.utilityStmt, session.gateway.builtins) or await runs_functions(session, [oid] if oid else [])
    )
    return Routed(Route.GUARDED, query) if watched else await _relayed(session, query)


async def _truncate(session: SessionContext, _: Analysis, query: Node) -> Routed:
    found = [await resolve(session, relation) for relation in query.utilityStmt.relations]
    lake = await lake_relations(session, (oid for oid in found if oid))
    lake_targets = tuple(oid for oid in found if oid in lake)
    if not lake and await runs_functions(session, [oid for oid in found if oid]):
        return Routed(Route.GUARDED, query, late=True)
    return Routed(Route.TRUNCATE if lake else Route.RELAY, query, lake_targets, late=not lake)


async def _explain(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    offset, options = await offloaded(session, len(analysis.sql), analysis.taken_apart, statements.explained)
    text = analysis.sql[offset:]
    routed = await _inner(session, analysis, offset, text)
    inner = routed.inner_routed
    assert inner is not None
    if inner.route is Route.REFRESH:
        return Routed(Route.RELAY, query)  # PostgreSQL has no plan to show for it
    is_change = await offloaded(session, len(text), statements.is_schema_change, text)
    if inner.route in (Route.RELAY, Route.GUARDED) and not is_change:
        return Routed(inner.route, query)
    return Routed(Route.EXPLAIN, query, inner.lake, routed.inner, inner, options)


async def _lock(session: SessionContext, _: Analysis, query: Node) -> Routed:
    utility = query.utilityStmt
    found = [await resolve(session, relation) for relation in utility.relations]
    lake = await lake_relations(session, (oid for oid in found if oid))
    beside = [oid for oid in found if oid is not None and oid not in lake]
    if beside:
        question = Statement(_READ_BY_VIEWS, (number_array(beside),))
        [read] = await session.backend.run(question, sync=session.simple)
        if await lake_relations(session, (int(oid) for (oid,) in read.rows if oid is not None)):
            raise unsupported("LOCK TABLE of a view")
    watched = lake or (beside and session.transaction.deferred.pending)
    return Routed(Route.LOCK if watched else Route.RELAY, query, tuple(oid for oid in found if oid in lake))


async def _vacuum(session: SessionContext, _: Analysis, query: Node) -> Routed:
    """Route VACUUM of all tables or of the named ones; PostgreSQL alone executes it if none of these is in the lake."""
    command = vacuum_command(query.utilityStmt)
    if command is None:
        return Routed(Route.RELAY, query)
    found = [await resolve(session, table.relation) for table in command.tables]
    lake = await lake_relations(session, (oid for oid in found if oid))
    if command.tables and not lake:
        return Routed(Route.RELAY, query)
    return Routed(Route.VACUUM, query, tuple(oid for oid in found if oid in lake))


async def _cluster(session: SessionContext, _: Analysis, query: Node) -> Routed:
    relation = query.utilityStmt.relation
    if relation is None:
        return Routed(Route.CLUSTER, query)
    oid = await resolve(session, relation)
    lake = await lake_relations(session, [oid] if oid else [])
    return Routed(Route.CLUSTER if lake else Route.RELAY, query, tuple(lake))


async def _copy(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    utility = query.utilityStmt
    if utility.relation is not None:
        oid = await resolve(session, utility.relation)
        lake = await lake_relations(session, [oid] if oid else [])
        if not lake and utility.is_from and await runs_functions(session, [oid] if oid else []):
            raise unsupported("COPY into a table whose triggers or constraints call functions made by users")
        return Routed(Route.COPY if lake else Route.RELAY, query, tuple(lake), late=not lake)
    start, end = await offloaded(session, len(analysis.sql), statements.parenthesised, analysis.sql)
    routed = await _inner(session, analysis, start, analysis.sql[start:end])
    assert routed.inner_routed is not None
    if routed.inner_routed.route in (Route.RELAY, Route.GUARDED):
        return Routed(routed.inner_routed.route, query)
    if routed.inner is None or routed.inner.columns is None or routed.inner.parameter_types:
        return Routed(Route.RELAY, query)  # PostgreSQL reports the missing table or parameter
    return Routed(Route.COPY, query, routed.inner_routed.lake, routed.inner, routed.inner_routed)


async def _table_as(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    utility = query.utilityStmt
    if utility.into.viewQuery is not None:
        await _judge(session, utility)
        return Routed(Route.MATERIALIZED, query)
    persistence = utility.into.rel.relpersistence
    parts = await offloaded(session, len(analysis.sql), statements.table_as, analysis.sql)
    routed = await _inner(session, analysis, parts.offset, parts.query)
    assert routed.inner_routed is not None
    if persistence == "t":
        refuse_own_options(utility.into.options)
        inner = routed.inner_routed
        if inner.route in (Route.RELAY, Route.GUARDED):
            return Routed(inner.route, query)
        if not parts.with_data:
            return Routed(Route.RELAY, query)
        if inner.route not in (Route.SELECT, Route.EXECUTE):
            raise unsupported("a temporary table made from lake tables")
        return Routed(Route.TEMPORARY, query, inner.lake, routed.inner, inner)
    inner = routed.inner_routed
    if inner.query is not None and routes.command(inner.query) is Route.EXECUTE and inner.route is not Route.EXECUTE:
        executed = await _executed(session, inner.query)
        if executed is None:
            return Routed(Route.RELAY, query)  # PostgreSQL reports that there is none
        inner = Routed(Route.EXECUTE, inner.query, (), *executed, late=True)
    return Routed(Route.TABLE_AS, query, inner.lake, routed.inner, inner)


async def _refresh(session: SessionContext, _: Analysis, query: Node) -> Routed:
    await _judge(session, query.utilityStmt)
    oid = await resolve(session, query.utilityStmt.relation)
    lake = await lake_relations(session, [oid] if oid else [])
    return Routed(Route.REFRESH if lake else Route.RELAY, query, tuple(lake))


async def _declare(session: SessionContext, analysis: Analysis, query: Node) -> Routed:
    offset = await offloaded(session, len(analysis.sql), statements.declared, analysis.sql)
    routed = await _inner(session, analysis, offset, analysis.sql[offset:])
    inner, name = routed.inner_routed, name_of(query.utilityStmt.portalname)
    assert inner is not None
    if session.simple and session.has_portal(name):  # one of the gateway's, of which PostgreSQL does not know
        raise SluiceError("42P03", f'cursor "{name}" already exists')
    match inner.route:
        case Route.RELAY:
            return Routed(Route.RELAY, query)
        case Route.SELECT:
            return Routed(Route.DECLARE, query, inner.lake, routed.inner, inner)
        case _ if int(query.utilityStmt.options) & routes.HOLD:
            raise unsupported("DECLARE CURSOR WITH HOLD over a function made by users")
        case _:  # as if a function had opened it
            return Routed(Route.GUARDED, query)


async def _fetch(session: SessionContext, _: Analysis, query: Node) -> Routed:
    """Route FETCH by the cursor's owner. A cursor that a function has opened is guarded as functions are."""
    utility = query.utilityStmt
    cursor = await session.cursors.find(name_of(utility.portalname), sync=session.simple)
    if cursor is not None:
        return Routed(Route.FETCH, query, cursor=cursor, late=True)
    return Routed(Route.GUARDED if session.ran_functions else Route.RELAY, query, late=True)


async def _execute(session: SessionContext, _: Analysis, query: Node) -> Routed:
    executed = await _executed(session, query)
    if executed is None:
        return Routed(Route.RELAY, query, late=True)
    inner, routed = executed
    if routed.route is Route.RELAY and routed.late and routed.temporary_at is None:
        # What PostgreSQL has prepared may mean a lake table that another one hides since: it does not look again.
        return Routed(Route.GUARDED, query, late=True)
    if routed.route in (Route.RELAY, Route.GUARDED):
        return Routed(routed.route, query, late=True)
    return Routed(Route.EXECUTE, query, routed.lake, inner, routed, late=True)


async def _executed(session: SessionContext, query: Node) -> tuple[Analysis, Routed] | None:
    """The statement that EXECUTE executes, with its route; None if no statement of that name was prepared."""
    name = name_of(query.utilityStmt.name)
    found = None if name in session.executing else await prepared_text(session, name)
    if found is None:  # or it executes itself, which ends with PostgreSQL's stack depth error
        return None
    if any(map(transaction_command, await offloaded(session, len(found.text), statements.split, found.text))):
        raise unsupported("EXECUTE of a statement about the transaction")
    inner = await analysed(session, found.text, name=OWN, parameter_types=found.parameter_types, sync=session.simple)
    session.executing.add(name)
    try:
        return inner, await route(session, inner)
    finally:
        session.executing.discard(name)


async def prepared_text(session: SessionContext, name: str) -> PreparedText | None:
    """The prepared statement of that name; None where there is none."""
    [result] = await session.backend.run(Statement(_PREPARED, (name,)), sync=session.simple)
    if not result.rows:
        return None
    statement, from_sql, types = result.rows[0]
    assert statement is not None
    assert types is not None
    text = statement.decode()
    if from_sql == b"t":
        text = text[await offloaded(session, len(text), statements.prepared, text) :].rstrip().removesuffix(";")
    listed = types.decode().strip("{}")
    return PreparedText(text, tuple(map(int, listed.split(","))) if listed else ())


async def _inner(session: SessionContext, analysis: Analysis, offset: int, text: str) -> Routed:
    """Analyse the statement inside; the backend must not be waiting for Sync."""
    try:
        inner = await analysed(session, text, name=OWN, parameter_types=analysis.parameter_types, sync=session.simple)
    except SluiceError as error:
        if error.fields.get("P"):
            error.fields["P"] = str(int(error.fields["P"]) + offset)
        raise
    inner.parameter_types = inner.parameter_types or analysis.parameter_types
    routed = await route(session, inner)
    if routed.route is Route.WITH_CHANGES:
        raise unsupported("a data-modifying statement in WITH inside of another statement")
    return Routed(Route.RELAY, None, (), inner, routed)


_UTILITIES: Final[Mapping[Route, Callable[[SessionContext, Analysis, Node], Awaitable[Routed]]]] = {
    Route.COPY: _copy,
    Route.TRUNCATE: _truncate,
    Route.LOCK: _lock,
    Route.CREATE_TABLE: _create_table,
    Route.ALTER: _alter,
    Route.SCHEMA_ONLY: _schema_only,
    Route.ALTER_SEQUENCE: _alter_sequence,
    Route.VACUUM: _vacuum,
    Route.CLUSTER: _cluster,
    Route.EXPLAIN: _explain,
    Route.TABLE_AS: _table_as,
    Route.REFRESH: _refresh,
    Route.DECLARE: _declare,
    Route.FETCH: _fetch,
    Route.EXECUTE: _execute,
}
