"""Whether PostgreSQL may compute a query over copied lake rows in shadows.

PostgreSQL's own meaning then holds, whatever the query's shape. Excluded are queries that could see that the rows are
copies, and queries with effects: these would be undone together with the rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from catalog.datatypes import FIRST_USER_OID
from planner.tree.builtins import Builtins
from planner.tree.nodes import parse, remembered, walk
from planner.tree.references import RUNS_SQL, functions
from planner.tree.system_attributes import TABLE_OID

# Volatile functions without effects that a savepoint would undo.
_HARMLESS: Final = frozenset(
    {
        "array_sample", "array_shuffle", "clock_timestamp", "currval", "gen_random_uuid", "lastval", "lo_get",
        "nextval", "pg_sleep", "pg_sleep_for", "random", "random_normal", "setseed", "setval", "timeofday", "uuidv4",
        "uuidv7",
    }
)  # fmt: skip
# Volatile functions with lasting effects that have nothing to do with tables.
LOCKS_AND_NOTICES: Final = frozenset(
    {"pg_advisory_unlock", "pg_advisory_unlock_all", "pg_advisory_unlock_shared", "pg_notify"}
    | {
        f"pg_{how}advisory_{level}lock{mode}"
        for how in ("", "try_")
        for level in ("", "xact_")
        for mode in ("", "_shared")
    }
)
_LARGE_OBJECTS: Final = frozenset({"lo_creat", "lo_create", "lo_from_bytea", "lo_put", "lo_unlink"})
_LASTING: Final = LOCKS_AND_NOTICES | _LARGE_OBJECTS | {"set_config"}

# Those of them whose effects survive a rollback: locks of the session itself.
_OF_SESSION: Final = frozenset(
    {f"pg_{how}advisory_lock{mode}" for how in ("", "try_") for mode in ("", "_shared")}
    | {"pg_advisory_unlock", "pg_advisory_unlock_all", "pg_advisory_unlock_shared"}
)
assert _OF_SESSION <= _LASTING, "a function of the session's locks is not listed"


def is_computable(tree: Any, builtins: Builtins, *, made_by_users: bool = False, locked: bool = False) -> bool:
    """Whether the answer does not depend on the rows' place, and the query has no other effects.

    With `made_by_users`, the caller checks the functions of users and those with lasting effects: see
    `functions_of_users` and `lasting_functions`. With `locked`, the caller has locked the rows that the query locks.
    """
    for oid in functions(tree):
        if oid >= FIRST_USER_OID:
            if not made_by_users:
                return False
            continue
        known = builtins.functions.get(oid)
        if known is None or known.name in RUNS_SQL:
            return False
        if known.volatility == "v" and known.name not in (_HARMLESS | _LASTING if made_by_users else _HARMLESS):
            return False
    return not _reads_places(tree) and (locked or not _locks_rows(tree))


@remembered
def _locks_rows(tree: Any) -> bool:
    return any(node.type == "ROWMARKCLAUSE" for node in walk(tree))


@remembered
def _reads_places(tree: Any) -> bool:
    """Whether it reads what a copied row has not: its place and its transaction. The table is the same."""
    return any(node.type == "VAR" and node.varattno < 0 and node.varattno != TABLE_OID for node in walk(tree))


@lru_cache(maxsize=1000)
def functions_in(expression: str) -> frozenset[int]:
    """Return `functions_of_users` of a default, a generation expression or a CHECK, in node text."""
    return functions_of_users(parse(expression))


def functions_of_users(tree: Any) -> frozenset[int]:
    """Return the OIDs of users' functions that the query calls: they may read tables that are not in it."""
    return frozenset(oid for oid in functions(tree) if oid >= FIRST_USER_OID)


def lasting_functions(tree: Any, builtins: Builtins) -> frozenset[int]:
    """Return the OIDs of PostgreSQL's functions in the query with lasting effects: locks, settings, notifications,
    large objects.
    """
    return _named(tree, builtins, _LASTING)


def session_locking_functions(tree: Any, builtins: Builtins) -> frozenset[int]:
    """Return the OIDs of those `lasting_functions` whose effects last although the query's reads are undone."""
    return _named(tree, builtins, _OF_SESSION)


def undone_functions(tree: Any, builtins: Builtins) -> frozenset[int]:
    """Return the OIDs of PostgreSQL's functions in the query whose effects would be undone together with its rows:
    large objects, settings, notifications, locks until the transaction ends.
    """
    known = ((oid, builtins.functions.get(oid)) for oid in functions(tree))
    volatile = ((oid, each) for oid, each in known if each is not None and each.volatility == "v")
    return frozenset(oid for oid, each in volatile if each.name not in _HARMLESS | _OF_SESSION)


def _named(tree: Any, builtins: Builtins, names: frozenset[str]) -> frozenset[int]:
    known = ((oid, builtins.functions.get(oid)) for oid in functions(tree))
    return frozenset(oid for oid, each in known if each is not None and oid < FIRST_USER_OID and each.name in names)


def acting_functions(tree: Any, builtins: Builtins) -> frozenset[int]:
    """Return the OIDs of both: of the functions that may do more than compute."""
    return functions_of_users(tree) | lasting_functions(tree, builtins)
