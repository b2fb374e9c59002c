"""Guesses which lake tables functions will use, by the names in their source texts.

The guess saves executions (`gateway.execution.functions.do_call`); the function guard counts the real use in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from gateway.backend.arrays import number_array, text_array
from gateway.backend.own_statement import Statement
from gateway.execution.reading.function_text import TEXT
from gateway.session.offload import offloaded
from gateway.session.visibility import lake_relations
from planner.plans.computable import functions_of_users
from planner.plans.routes import Route
from planner.syntax.possible_names import LENGTH_MAX, names_in, words_in

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.tree.nodes import Node

# How deep calls of functions are followed.
_DEPTH_MAX: Final = 10
# Whether the names behind their schemas have the one in this column, in the schema `n`; that of temporary objects has
# two names.
QUALIFIED: Final = (
    "ARRAY[pg_catalog.concat(nspname, '.', {column}), pg_catalog.concat(nspname, '.*'),"
    " CASE WHEN n.oid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()"
    " THEN pg_catalog.concat('pg_temp.', {column}) END]"
    " OPERATOR(pg_catalog.&&) {names}::pg_catalog.text[]"
)
_WORD_SIZE: Final = 8  # characters, about
_SOURCE: Final = f"pg_catalog.left({TEXT}, {LENGTH_MAX})"
_SOURCES: Final = f"""
SELECT p.oid::pg_catalog.int8, {_SOURCE}, pg_catalog.array_to_string(proconfig, E'\\n') FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) pronamespace
WHERE proname OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.name[]) AND p.oid OPERATOR(pg_catalog.>=) $3::pg_catalog.int8
    AND (pg_catalog.pg_function_is_visible(p.oid)
        OR {QUALIFIED.format(column="proname", names="$2")})
"""
# On which the client has some right.
_TABLES: Final = f"""
SELECT c.oid::pg_catalog.int8 FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) relnamespace
WHERE relname OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.name[]) AND relkind OPERATOR(pg_catalog.=) 'r'
    AND (pg_catalog.pg_table_is_visible(c.oid)
        OR {QUALIFIED.format(column="relname", names="$2")})
    AND pg_catalog.has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE')
"""
# The tables that foreign keys make PostgreSQL look at when rows of these are changed.
_RELATED: Final = """
WITH RECURSIVE written (oid) AS (
    SELECT o FROM pg_catalog.unnest($1::pg_catalog.oid[]) AS u (o)
    WHERE pg_catalog.has_table_privilege(o, 'INSERT, UPDATE, DELETE')
), below (oid) AS (
    SELECT w.oid FROM written w WHERE $2::pg_catalog.bool
    UNION SELECT c.conrelid FROM below b JOIN pg_catalog.pg_constraint c ON c.confrelid OPERATOR(pg_catalog.=) b.oid
    WHERE c.contype OPERATOR(pg_catalog.=) 'f'
)
SELECT b.oid::pg_catalog.int8 FROM below b
UNION SELECT c.confrelid::pg_catalog.int8 FROM written w
    JOIN pg_catalog.pg_constraint c ON c.conrelid OPERATOR(pg_catalog.=) w.oid
    WHERE c.contype OPERATOR(pg_catalog.=) 'f' AND $3::pg_catalog.bool
"""
_NAMED: Final = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_class
    WHERE relname OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.name[]) AND relkind OPERATOR(pg_catalog.=) ANY ('{r,v,m}')
    AND oid OPERATOR(pg_catalog.>=) $2::pg_catalog.int8)
"""
_CALLED: Final = f"""
SELECT {_SOURCE}, provolatile FROM pg_catalog.pg_proc p
WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) OR oid OPERATOR(pg_catalog.=) ANY (ARRAY(
    SELECT pg_catalog.unnest(ARRAY[aggtransfn, aggfinalfn]::pg_catalog.oid[]) FROM pg_catalog.pg_aggregate
    WHERE aggfnoid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])))
"""
_OF_TRIGGERS: Final = f"""
SELECT {_SOURCE}, (t.tgtype::pg_catalog.int4 OPERATOR(pg_catalog.&) 1) OPERATOR(pg_catalog.=) 0
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
WHERE t.tgrelid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) AND NOT t.tgisinternal
    AND t.tgenabled OPERATOR(pg_catalog.<>) 'D'
"""
# Words of statements that change schemas, and of calls of Sluice's own functions, whose effects are not counted.
_DEFINING: Final = frozenset(
    {"alter", "create", "drop", "truncate", "lock", "grant", "revoke", "reindex", "cluster", "refresh", "discard"}
    | {"pg_export_snapshot", "pg_sluice"}
)
# Besides, words of statements whose other effects keep copied rows in shadows until the transaction ends.
_BESIDE_ROWS: Final = _DEFINING | {
    "set_config", "notify", "pg_notify", "listen", "unlisten", "prepare", "deallocate", "load"
}  # fmt: skip
# A mark of all functions of users, and of how this session finds them.
CODE: Final = Statement(
    "SELECT pg_sluice.code_mark(), pg_sluice.backend_setting('search_path'), current_user::pg_catalog.text"
)
_REMOVING: Final = frozenset({"delete", "merge"})
_ADDING: Final = frozenset({"insert", "update", "merge"})
_CHANGING: Final = _ADDING | _REMOVING | {"copy", "truncate"}
_ROUTES: Final = frozenset({Route.SELECT, Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE, Route.WITH_CHANGES})


@dataclass(frozen=True, slots=True)
class Words:
    """The words of texts, and of functions that they name, recursively; whether these `are_all`. With them are names
    behind those of their schemas, and quoted ones.
    """

    found: frozenset[str]
    are_all: bool

    @property
    def may_do_more(self) -> bool:
        """Whether a statement among them may do more than use rows, unless it is built from parts."""
        return not self.are_all or not _BESIDE_ROWS.isdisjoint(self.found)

    @property
    def may_define(self) -> bool:
        """Whether a statement among them may change a schema, unless it is built from parts."""
        return not self.are_all or not _DEFINING.isdisjoint(self.found)

    @property
    def may_change_rows(self) -> bool:
        """Whether a statement among them may change rows, and fire triggers."""
        return not self.are_all or self.may_build or not _CHANGING.isdisjoint(self.found)

    @property
    def may_lock(self) -> bool:
        """Whether one of them may be a function of advisory locks."""
        return any("advisory" in word for word in self.found)

    @property
    def may_build(self) -> bool:
        """Whether statements may be built from parts, and do anything."""
        return "execute" in self.found


async def likely_tables(session: SessionContext, texts: Sequence[str]) -> tuple[set[int], set[str]]:
    """Tables whose names occur in these texts, or in functions named there, recursively; and all words."""
    words = await words_of(session, texts)
    return await tables_named(session, words), set(words.found)


async def naming(session: SessionContext, words: Words) -> Statement:
    """The question for `tables_named`."""
    return Statement(_TABLES, await name_arrays(session, words.found, of_tables=True))


async def tables_named(session: SessionContext, words: Words, answer: Result | None = None) -> set[int]:
    """The lake tables that have one of these names, in the search path or a schema that is named with it, and on which
    the client has some right. The `answer` to `naming`, if it was asked before.
    """
    tables = answer
    if tables is None:
        [tables] = await session.backend.run(await naming(session, words), sync=session.simple)
    return set(await lake_relations(session, (int(oid) for (oid,) in tables.rows if oid is not None)))


async def tables_related(session: SessionContext, words: Collection[str], oids: Collection[int]) -> set[int]:
    """The lake tables that foreign keys may bring in, if statements of these words change rows of these tables."""
    removes, adds = [not names.isdisjoint(words) for names in (_REMOVING, _ADDING)]
    if not oids or not (removes or adds):
        return set()
    given = number_array(oids), "t" if removes else "f", "t" if adds else "f"
    [related] = await session.backend.run(Statement(_RELATED, given), sync=session.simple)
    return set(await lake_relations(session, (int(oid) for (oid,) in related.rows if oid is not None)))


async def trigger_texts(session: SessionContext, oids: Iterable[int]) -> tuple[list[str], bool]:
    """The texts of the functions of these tables' triggers; whether any trigger is FOR EACH STATEMENT."""
    [sources] = await session.backend.run(Statement(_OF_TRIGGERS, (number_array(oids),)))
    return [str(source or b"", "utf-8") for source, _ in sources.rows], any(each == b"t" for _, each in sources.rows)


async def may_leave_effects(session: SessionContext, functions: Collection[int]) -> bool:
    """Whether functions of users, or those that they call, may do what a savepoint undoes, other than change rows."""
    [called] = await session.backend.run(Statement(_CALLED, (number_array(functions),)))
    words = await words_of(session, [str(source or b"", "utf-8") for source, _ in called.rows])
    return words.may_do_more or words.may_build or words.may_lock


async def may_tell_at_once(session: SessionContext, words: Words) -> bool:
    """Whether a statement of these words raises messages, names no table or view of any schema, and builds no
    statement: it is then very unlikely to use the lake.
    """
    if not words.are_all or "raise" not in words.found or "execute" in words.found:
        return False
    asked = Statement(_NAMED, (text_array(words.found), str(FIRST_USER_OID)))
    [named] = await session.backend.run(asked, sync=session.simple)
    return named.rows[0][0] == b"f"


async def words_of(session: SessionContext, texts: Sequence[str]) -> Words:
    """The words of these texts, and of functions named by them, recursively. Of long texts, the first part counts."""
    run, sync = session.backend.run, session.simple
    words, known, are_all = set[str](), set[int](), True
    settings = set[str]()  # those of functions hold for the ones that these call, too
    for _ in range(_DEPTH_MAX):
        are_all = are_all and all(len(text) < LENGTH_MAX for text in texts)
        found = await offloaded(session, sum(map(len, texts)), words_in, texts, settings)
        words |= found
        names = await name_arrays(session, found)
        [sources] = await run(Statement(_SOURCES, (*names, str(FIRST_USER_OID))), sync=sync)
        new = [each for each in sources.rows if int(each[0] or 0) not in known]
        known |= {int(oid or 0) for oid, *_ in new}
        texts = [str(source or b"", "utf-8") for _, source, _ in new]
        settings |= {str(each or b"", "utf-8") for *_, each in new}
        if not texts:
            break
    else:
        are_all = False
    return Words(frozenset(words), are_all)


class Use(Enum):
    """What the functions of users in a lake statement make of it."""

    PLAIN = "they only compute"
    TABLES = "they are likely to use further tables, or to change its own"
    VOLATILE = "they may have effects, and give other values each time"


async def use_of_functions(session: SessionContext, routed: Routed) -> Use:
    """What a lake statement's functions make of it; PLAIN where PostgreSQL may not execute it over copied rows."""
    query = routed.query
    users = frozenset[int]() if query is None or routed.route not in _ROUTES else functions_of_users(query)
    if users:
        await session.cursors.watch()
    if not users or session.transaction.deferred.pending or session.transaction.parts is not None:
        return Use.PLAIN
    if query is not None and query.fields.get("rowMarks"):
        return Use.PLAIN
    [called] = await session.backend.run(Statement(_CALLED, (number_array(users),)), sync=session.simple)
    volatile = Use.VOLATILE if any(kind == b"v" for _, kind in called.rows) else Use.PLAIN
    likely, _ = await likely_tables(session, [str(source or b"", "utf-8") for source, _ in called.rows])
    if likely - set(routed.lake):
        return Use.TABLES
    if routed.route is Route.INSERT and _target(query) in likely:
        return Use.TABLES  # it reads the table while rows are inserted
    return Use.TABLES if likely and volatile is Use.VOLATILE else volatile


async def name_arrays(session: SessionContext, words: Collection[str], *, of_tables: bool = False) -> tuple[str, str]:
    """The `names_in` these words, as two arrays."""

    def make() -> tuple[str, str]:
        names, qualified = names_in(words, of_tables=of_tables)
        return text_array(names), text_array(qualified)

    return await offloaded(session, _WORD_SIZE * len(words), make)


def _target(query: Node | None) -> int:
    assert query is not None
    return int(query.rtable[int(query.resultRelation) - 1].relid)
