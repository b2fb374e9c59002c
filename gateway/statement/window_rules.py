"""Which statements of a block with deferred changes run in a window: the table, and its rules.

In a window (gateway/transaction/transactional_ddl.py) a statement sees the deferred changes, and what it does at the
backend is undone behind it. So only statements run there whose effects are known to outlive it. The others run beside
the window, or settle the changes first (`gateway/statement/statement_windows.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from planner.plans.computable import acting_functions
from planner.plans.locking_plan import first_strength
from planner.plans.routes import Route, command, is_utility
from planner.tree.nodes import walk
from planner.tree.references import functions, relations

if TYPE_CHECKING:
    from gateway.statement.routed import Routed
    from planner.tree.builtins import Builtins
    from planner.tree.nodes import Node

# PostgreSQL's volatile functions without an effect on the transaction.
TRACELESS: Final = frozenset(
    {
        "clock_timestamp", "currval", "gen_random_uuid", "lastval", "nextval", "pg_cancel_backend", "pg_sleep",
        "pg_sleep_for", "pg_sleep_until", "pg_terminate_backend", "random", "setseed", "setval", "timeofday", "uuidv4",
        "uuidv7",
    }
)  # fmt: skip
# Routes that EXPLAIN explains, and schema changes that use them.
_EXPLAINED: Final = frozenset({Route.SELECT, Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE, Route.EXECUTE})
_CHANGES: Final = frozenset(
    {Route.ALTER, Route.ALTER_SEQUENCE, Route.ALTER_TYPE, Route.SCHEMA_ONLY, Route.CREATE_TABLE, Route.RELAY}
)
# Routes of queries from which a table can be made.
_OF_ROWS: Final = frozenset({Route.SELECT, Route.RELAY, Route.EXECUTE})


class Rule(NamedTuple):
    """When statements of a route run in a window, in words and as a function of the statement."""

    words: str
    holds: Callable[[Routed, Builtins], bool]


def runs_in_window(routed: Routed, builtins: Builtins) -> bool:
    """Whether the statement's effects outlive the window that it runs in."""
    return WINDOW_RULES[routed.route].holds(routed, builtins)


def only_reads(query: Node, builtins: Builtins, besides: frozenset[str] = frozenset()) -> bool:
    """Whether a query changes and locks nothing, and calls only functions without effects, but for those `besides`."""
    if is_utility(query) or command(query) is not Route.SELECT or query.hasModifyingCTE or query.rowMarks:
        return False
    for oid in functions(query):
        known = builtins.functions.get(oid)
        if known is None or (known.volatility == "v" and known.name not in TRACELESS | besides):
            return False
    return True


def _reads(routed: Routed, builtins: Builtins) -> bool:
    return routed.query is not None and only_reads(routed.query, builtins)


def _acts_not(routed: Routed, builtins: Builtins) -> bool:
    return not acting_functions(routed.query, builtins)


def _uses_lake_alone(routed: Routed, builtins: Builtins) -> bool:
    return relations(routed.query) == set(routed.lake) and not acting_functions(routed.query, builtins)


def _has_plain_arguments(routed: Routed, builtins: Builtins) -> bool:
    arguments = () if routed.query is None else walk(routed.query.utilityStmt.params or ())
    inner = routed.inner_routed
    return all(node.type == "A_CONST" for node in arguments) and inner is not None and runs_in_window(inner, builtins)


def _is_explained(routed: Routed, builtins: Builtins) -> bool:
    inner = routed.inner_routed
    if inner is None or inner.route in _CHANGES:
        return inner is not None
    carried_out = routed.options.keys() & {"analyze", "analyse"}
    return inner.route in _EXPLAINED and (not carried_out or runs_in_window(inner, builtins))


def _declares(routed: Routed, builtins: Builtins) -> bool:
    return routed.inner_routed is not None and _acts_not(routed.inner_routed, builtins)


def _fetches(routed: Routed, _: Builtins) -> bool:
    return routed.cursor is not None


def _copies(routed: Routed, builtins: Builtins) -> bool:
    return routed.inner_routed is None or runs_in_window(routed.inner_routed, builtins)


def _is_made_of_rows(routed: Routed, builtins: Builtins) -> bool:
    inner = routed.inner_routed
    if inner is None or inner.route not in _OF_ROWS or not runs_in_window(inner, builtins):
        return False
    read = inner.inner_routed if inner.route is Route.EXECUTE else inner
    assert read is not None
    return routed.route is Route.TABLE_AS or (read.route is Route.SELECT and first_strength(read.query) is None)


_ALWAYS: Final = Rule("yes", lambda _routed, _builtins: True)
_NEVER: Final = Rule("no", lambda _routed, _builtins: False)
_OF_MADE_ROWS: Final = Rule(
    "if its query is one of lake rows or of PostgreSQL's, which runs in a window; a temporary one without row locks",
    _is_made_of_rows,
)
WINDOW_RULES: Final[Mapping[Route, Rule]] = {
    Route.RELAY: Rule("if it is a query that changes and locks nothing, by functions without effects", _reads),
    Route.SELECT: Rule("if its functions have no effects", _acts_not),
    Route.INSERT: _ALWAYS,
    Route.UPDATE: _ALWAYS,
    Route.DELETE: _ALWAYS,
    Route.MERGE: _ALWAYS,
    Route.WITH_CHANGES: Rule("if it uses lake tables alone, and its functions have no effects", _uses_lake_alone),
    Route.COPY: Rule("if its query does, where it has one", _copies),
    Route.TABLE_AS: _OF_MADE_ROWS,
    Route.TEMPORARY: _OF_MADE_ROWS,
    Route.MATERIALIZED: _ALWAYS,
    Route.REFRESH: _ALWAYS,
    Route.TRUNCATE: _ALWAYS,
    Route.LOCK: _ALWAYS,
    Route.ALTER: _ALWAYS,
    Route.SCHEMA_ONLY: _ALWAYS,
    Route.ALTER_SEQUENCE: _ALWAYS,
    Route.ALTER_TYPE: _ALWAYS,
    Route.CREATE_TABLE: _ALWAYS,
    Route.MADE: _ALWAYS,
    Route.CONCURRENTLY: _NEVER,
    Route.CREATE_DATABASE: _NEVER,
    Route.VACUUM: _NEVER,
    Route.CLUSTER: _NEVER,
    Route.EXPLAIN: Rule("if it explains a change of rows or a query, with ANALYZE one that does", _is_explained),
    Route.DECLARE: Rule("if the functions of its query have no effects", _declares),
    Route.FETCH: Rule("if the cursor is over the lake", _fetches),
    Route.EXECUTE: Rule("if its arguments are constants, and the prepared statement does", _has_plain_arguments),
    Route.GUARDED: _NEVER,
}
assert WINDOW_RULES.keys() == set(Route), "a route without a rule for windows"
