"""Routes: the kind of a statement, decided by its analysed tree.

Pure. One table decides for utility statements, by the type of the node. One rule decides for statements that
PostgreSQL's planner would take: they belong to the lake if anything in the tree (sublinks, CTEs and expanded views
included) is a lake table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from catalog.errors import unsupported
from planner.tree.nodes import Node


class Route(Enum):
    """The route of a statement."""

    RELAY = "relay"  # PostgreSQL, byte for byte
    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    WITH_CHANGES = "with"  # WITH queries some of which change data
    COPY = "copy"
    TABLE_AS = "create table as"
    TEMPORARY = "temporary table"  # created or changed with rows of the lake
    MATERIALIZED = "create materialized view"
    REFRESH = "refresh materialized view"
    TRUNCATE = "truncate"
    LOCK = "lock table"
    ALTER = "alter table"
    SCHEMA_ONLY = "schema only"  # RENAME, SET SCHEMA, DROP, REINDEX; in a block, REPEATABLE and what is LOCKED
    ALTER_SEQUENCE = "alter sequence"  # of a shared sequence, in a block
    ALTER_TYPE = "alter type"  # an enumeration, a composite type or a domain
    CREATE_TABLE = "create table"  # that refers to others
    MADE = "made beside"  # MADE_BESIDE, in a block that has deferred changes
    CONCURRENTLY = "concurrently"
    CREATE_DATABASE = "create database"
    VACUUM = "vacuum"  # and ANALYZE
    CLUSTER = "cluster"
    EXPLAIN = "explain"
    DECLARE = "declare"
    FETCH = "fetch"
    EXECUTE = "execute"
    GUARDED = "guarded"  # PostgreSQL; reads of shadows are counted


# The bit of WITH HOLD in DeclareCursorStmt.options (parsenodes.h).
HOLD: Final = 0x20
# Node types of utility statements that need more than relaying.
UTILITY_ROUTES: Final[Mapping[str, Route]] = {
    "COPYSTMT": Route.COPY,
    "CREATETABLEASSTMT": Route.TABLE_AS,
    "REFRESHMATVIEWSTMT": Route.REFRESH,
    "TRUNCATESTMT": Route.TRUNCATE,
    "LOCKSTMT": Route.LOCK,
    "CREATESTMT": Route.CREATE_TABLE,
    "ALTERTABLESTMT": Route.ALTER,
    "INDEXSTMT": Route.ALTER,
    "RENAMESTMT": Route.SCHEMA_ONLY,
    "ALTEROBJECTSCHEMASTMT": Route.SCHEMA_ONLY,
    "DROPSTMT": Route.SCHEMA_ONLY,
    "DROPOWNEDSTMT": Route.SCHEMA_ONLY,
    "REASSIGNOWNEDSTMT": Route.SCHEMA_ONLY,
    "REINDEXSTMT": Route.SCHEMA_ONLY,
    "CREATEPOLICYSTMT": Route.SCHEMA_ONLY,
    "ALTERPOLICYSTMT": Route.SCHEMA_ONLY,
    "CREATETRIGSTMT": Route.SCHEMA_ONLY,
    "ALTERSEQSTMT": Route.ALTER_SEQUENCE,
    "ALTERDOMAINSTMT": Route.ALTER_TYPE,
    "ALTERENUMSTMT": Route.ALTER_TYPE,
    "CREATEDBSTMT": Route.CREATE_DATABASE,
    "VACUUMSTMT": Route.VACUUM,
    "CLUSTERSTMT": Route.CLUSTER,
    "EXPLAINSTMT": Route.EXPLAIN,
    "DECLARECURSORSTMT": Route.DECLARE,
    "FETCHSTMT": Route.FETCH,
    "EXECUTESTMT": Route.EXECUTE,
    "DOSTMT": Route.GUARDED,
    "CALLSTMT": Route.GUARDED,
}

# Statements that can be executed, undone and executed again, and touch no table's rows or columns.
REPEATABLE: Final = frozenset(
    {
        "ALTERCOLLATIONSTMT", "ALTERDEFAULTPRIVILEGESSTMT", "ALTERFUNCTIONSTMT", "ALTEROBJECTDEPENDSSTMT",
        "ALTEROBJECTSCHEMASTMT", "ALTEROPERATORSTMT", "ALTEROPFAMILYSTMT", "ALTEROWNERSTMT", "ALTERSTATSSTMT",
        "ALTERTSCONFIGURATIONSTMT", "ALTERTSDICTIONARYSTMT", "ALTERTYPESTMT", "COMMENTSTMT", "CREATECASTSTMT",
        "CREATECONVERSIONSTMT", "CREATEOPCLASSSTMT", "CREATEOPFAMILYSTMT", "CREATESTATSSTMT", "CREATETRANSFORMSTMT",
        "GRANTSTMT", "RENAMESTMT", "VIEWSTMT",
    }
)  # fmt: skip

# They create something new that is no table, or replace a function; no other session has to wait for them.
MADE_BESIDE: Final = frozenset(
    {"COMPOSITETYPESTMT", "CREATEDOMAINSTMT", "CREATEFUNCTIONSTMT", "CREATERANGESTMT", "DEFINESTMT"}
)

# These fields name the view or sequence that a statement locks; other sessions that use it then wait.
_LOCKED: Final[Mapping[str, str]] = {
    "ALTEROBJECTSCHEMASTMT": "relation",
    "ALTERSEQSTMT": "sequence",
    "ALTERTABLESTMT": "relation",
    "RENAMESTMT": "relation",
    "VIEWSTMT": "view",
}

# Statements that PostgreSQL alone executes, but that change the lake's catalog.
PUBLISHING: Final = frozenset(
    {
        "ALTEROBJECTSCHEMASTMT", "ALTEROWNERSTMT", "CREATESCHEMASTMT", "CREATESTMT",
        "DROPSTMT", "RENAMESTMT", "VIEWSTMT",
    }
)  # fmt: skip

# CmdType of PostgreSQL's nodes.h.
_COMMANDS: Final[Mapping[int, Route]] = {
    1: Route.SELECT,
    2: Route.UPDATE,
    3: Route.INSERT,
    4: Route.DELETE,
    5: Route.MERGE,
}
_UTILITY: Final = 6
_OBJECT_TYPE: Final = 49  # ObjectType of parsenodes.h


def command(query: Node) -> Route:
    """Return the route of the statement's kind, whatever it touches."""
    kind = int(query.commandType)
    if kind == _UTILITY:
        utility = query.utilityStmt
        if isinstance(utility, Node) and utility.fields.get("objtype") == _OBJECT_TYPE:
            return Route.ALTER_TYPE  # ADD ATTRIBUTE and the like
        return UTILITY_ROUTES.get(utility.type, Route.RELAY) if isinstance(utility, Node) else Route.RELAY
    if kind not in _COMMANDS:
        raise unsupported(f"a statement of command type {kind}")
    return _COMMANDS[kind]


def locked(utility: Node) -> Node | None:
    """Return the view or sequence that a utility statement may lock against its users."""
    field = _LOCKED.get(utility.type)
    return None if field is None else utility.fields.get(field)


def is_utility(query: Node) -> bool:
    """Whether PostgreSQL's planner has no part in it."""
    return int(query.commandType) == _UTILITY


def main_query(tree: Any) -> Node | None:
    """Return the query that the client wrote; None if a rule has removed it. Rules that add queries are refused."""
    queries = [query for query in tree or () if isinstance(query, Node)]
    if len(queries) > 1:
        raise unsupported("a rule that adds statements")
    return queries[0] if queries else None
