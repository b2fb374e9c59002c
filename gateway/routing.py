"""From a statement's analysis to who carries it out, asking the catalog which of its relations are lake tables.

The rules are `planner.routes`; this adds what needs a look at the catalog: names in utility statements, which
PostgreSQL resolves, and statements inside statements, which it analyses by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from catalog.errors import SluiceError, unsupported
from gateway.analysis import Analysis
from gateway.backend import Statement
from gateway.enlistment import analysed
from gateway.visibility import lake_relations
from planner import routes, statements
from planner.nodes import Node, parse, walk
from planner.references import FIRST_USER_OID, relations, runs_unseen, views
from planner.routes import Route

if TYPE_CHECKING:
    from gateway.cursor import Cursor
    from gateway.exchange import Exchange

_PREPARED: Final = (
    "SELECT statement, from_sql, parameter_types::oid[]::text FROM pg_catalog.pg_prepared_statements WHERE name = $1"
)
_RELATION: Final = Statement("SELECT pg_catalog.to_regclass($1)::oid::bigint::text")


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
    def is_relayed(self) -> bool:
        """Whether PostgreSQL carries it out unwatched."""
        return self.route is Route.RELAY


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A prepared statement as the backend has it: its own text, without SQL's PREPARE around it."""

    text: str
    parameter_types: tuple[int, ...]


async def route(session: Exchange, analysis: Analysis) -> Routed:
    """Who carries the statement out."""
    tree = parse(analysis.tree)
    query = routes.main_query(tree)
    if query is None:
        return Routed(Route.RELAY)
    if routes.is_utility(query):
        return await _utility(session, analysis, query)
    routed = await _optimizable(session, tree, query)
    if routed.lake:
        analysis.views = views(tree)
    return routed


async def _optimizable(session: Exchange, tree: Any, query: Node) -> Routed:
    lake = await lake_relations(session, (oid for oid in relations(tree) if oid >= FIRST_USER_OID))
    if not lake:
        watched = runs_unseen(tree, session.gateway.builtins)
        # Names of tables that are not PostgreSQL's own may mean others the next time.
        late = any(oid >= FIRST_USER_OID for oid in relations(tree))
        return Routed(Route.GUARDED if watched else Route.RELAY, query, late=late)
    kind = routes.command(query)
    if any(node.type == "CURRENTOFEXPR" for node in walk(query)):
        raise unsupported("WHERE CURRENT OF")
    if query.hasModifyingCTE:
        raise unsupported("a data-modifying statement in WITH")
    if kind is not Route.SELECT:
        target = query.rtable[int(query.resultRelation) - 1]
        if int(target.relid) not in lake:
            raise unsupported("changing a table that is not in the lake by rows of one that is")
    return Routed(kind, query, tuple(sorted(lake)))


async def _utility(session: Exchange, analysis: Analysis, query: Node) -> Routed:
    kind = routes.command(query)
    utility = query.utilityStmt
    match kind:
        case Route.COPY:
            return await _copy(session, analysis, query, utility)
        case Route.TRUNCATE:
            found = [await resolve(session, relation) for relation in utility.relations]
            lake = await lake_relations(session, (oid for oid in found if oid))
            if lake and len(lake) < len(found):
                raise unsupported("TRUNCATE of lake tables and others in one statement")
            return Routed(Route.TRUNCATE if lake else Route.RELAY, query, tuple(oid for oid in found if oid in lake))
        case Route.LOCK:
            return await _lock(session, query, utility)
        case Route.EXPLAIN:
            offset, options = statements.explained(analysis.sql)
            routed = await _inner(session, analysis, offset, analysis.sql[offset:])
            inner = routed.inner_routed
            assert inner is not None
            if inner.route in (Route.RELAY, Route.GUARDED):
                return Routed(inner.route, query)
            if inner.route is Route.EXECUTE:
                raise unsupported("EXPLAIN EXECUTE")
            return Routed(Route.EXPLAIN, query, inner.lake, routed.inner, inner, options)
        case Route.TABLE_AS:
            return await _table_as(session, analysis, query, utility)
        case Route.DECLARE:
            return await _declare(session, analysis, query)
        case Route.FETCH:
            return await _fetch(session, query, utility)
        case Route.EXECUTE:
            return await _execute(session, query, utility)
        case _:
            await session.transaction.enlistment.undisturbed()
            return Routed(kind, query)


async def _lock(session: Exchange, query: Node, utility: Node) -> Routed:
    found = [await resolve(session, relation) for relation in utility.relations]
    lake = await lake_relations(session, (oid for oid in found if oid))
    for oid, relation in zip(found, utility.relations, strict=True):
        if oid is not None and oid not in lake:
            inner = await analysed(session, f"TABLE {quoted_name(relation)}", name="pg_sluice", sync=session.simple)
            if await lake_relations(session, (oid for oid in relations(parse(inner.tree)) if oid >= FIRST_USER_OID)):
                raise unsupported("LOCK TABLE of a view")
    return Routed(Route.LOCK if lake else Route.RELAY, query, tuple(oid for oid in found if oid in lake))


async def _copy(session: Exchange, analysis: Analysis, query: Node, utility: Node) -> Routed:
    if utility.relation is not None:
        oid = await resolve(session, utility.relation)
        lake = await lake_relations(session, [oid] if oid else [])
        return Routed(Route.COPY if lake else Route.RELAY, query, tuple(lake))
    start, end = statements.parenthesised(analysis.sql)
    routed = await _inner(session, analysis, start, analysis.sql[start:end])
    assert routed.inner_routed is not None
    if routed.inner_routed.route is not Route.SELECT:
        if routed.inner_routed.route not in (Route.RELAY, Route.GUARDED):
            raise unsupported("COPY of a data-modifying statement")
        return Routed(routed.inner_routed.route, query)
    return Routed(Route.COPY, query, routed.inner_routed.lake, routed.inner, routed.inner_routed)


async def _table_as(session: Exchange, analysis: Analysis, query: Node, utility: Node) -> Routed:
    persistence = utility.into.rel.relpersistence
    parts = statements.table_as(analysis.sql)
    routed = await _inner(session, analysis, parts.offset, parts.query)
    assert routed.inner_routed is not None
    if persistence == "t":
        if routed.inner_routed.route not in (Route.RELAY, Route.GUARDED):
            raise unsupported("a temporary table made from lake tables")
        return Routed(routed.inner_routed.route, query)
    return Routed(Route.TABLE_AS, query, routed.inner_routed.lake, routed.inner, routed.inner_routed)


async def _declare(session: Exchange, analysis: Analysis, query: Node) -> Routed:
    offset = statements.declared(analysis.sql)
    routed = await _inner(session, analysis, offset, analysis.sql[offset:])
    inner = routed.inner_routed
    assert inner is not None
    match inner.route:
        case Route.RELAY:
            return Routed(Route.RELAY, query)
        case Route.SELECT:
            return Routed(Route.DECLARE, query, inner.lake, routed.inner, inner)
        case _:
            raise unsupported("DECLARE CURSOR over a function made by users")


async def _fetch(session: Exchange, query: Node, utility: Node) -> Routed:
    """By the name's owner. A cursor that a function has opened is watched as functions are."""
    cursor = await session.cursors.find(str(utility.portalname), sync=session.simple)
    if cursor is not None:
        return Routed(Route.FETCH, query, cursor=cursor, late=True)
    return Routed(Route.GUARDED if session.ran_functions else Route.RELAY, query, late=True)


async def _execute(session: Exchange, query: Node, utility: Node) -> Routed:
    found = await prepared_text(session, str(utility.name))
    if found is None:
        return Routed(Route.RELAY, query, late=True)
    inner = await analysed(
        session, found.text, name="pg_sluice", parameter_types=found.parameter_types, sync=session.simple
    )
    routed = await route(session, inner)
    if routed.route in (Route.RELAY, Route.GUARDED):
        return Routed(routed.route, query, late=True)
    return Routed(Route.EXECUTE, query, routed.lake, inner, routed, late=True)


async def prepared_text(session: Exchange, name: str) -> PreparedText | None:
    """The prepared statement of that name; None where there is none."""
    [result] = await session.backend.run(Statement(_PREPARED, (name,)), sync=session.simple)
    if not result.rows:
        return None
    statement, from_sql, types = result.rows[0]
    assert statement is not None
    assert types is not None
    text = statement.decode()
    if from_sql == b"t":
        text = text[statements.prepared(text) :].rstrip().removesuffix(";")
    listed = types.decode().strip("{}")
    return PreparedText(text, tuple(map(int, listed.split(","))) if listed else ())


async def _inner(session: Exchange, analysis: Analysis, offset: int, text: str) -> Routed:
    """Analyse the statement inside; the backend must not be waiting for Sync."""
    try:
        inner = await analysed(
            session, text, name="pg_sluice", parameter_types=analysis.parameter_types, sync=session.simple
        )
    except SluiceError as error:
        if error.fields.get("P"):
            error.fields["P"] = str(int(error.fields["P"]) + offset)
        raise
    inner.parameter_types = inner.parameter_types or analysis.parameter_types
    return Routed(Route.RELAY, None, (), inner, await route(session, inner))


async def resolve(session: Exchange, relation: Node) -> int | None:
    """The OID of the relation that a RangeVar names, by the session's search path; None where there is none."""
    [result] = await session.backend.run(Statement(_RELATION.sql, (quoted_name(relation),)), sync=session.simple)
    value = result.rows[0][0]
    return None if value is None else int(value)


def quoted_name(relation: Node) -> str:
    """What a RangeVar says, quoted."""
    parts = [relation.fields.get("schemaname"), relation.relname]
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts if part)
