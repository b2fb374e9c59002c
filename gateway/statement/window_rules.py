"""Where the statements of a block run: the table, and its rules.

In a window (gateway/transaction/transactional_ddl.py) a statement sees the deferred changes, and what it does at the
backend is undone behind it. So only statements run there whose effects are known to outlive it. Others run beside the
window, if they have nothing to do with the changes (`gateway/statement/beside_rules.py`). All else settles the changes
first. `gateway/statement/statement_windows.py` opens and closes windows by it.

Changes of schemas are made in steps, each at a place of its own, also where nothing is deferred yet. Their portals only
carry the steps out (`gateway/execution/schema/change_in_block.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.statement.beside_rules import NEVER_BESIDE, RELAYED_BESIDE, BesideRule
from gateway.statement.read_only_query import only_reads
from planner.plans.computable import acting_functions
from planner.plans.locking_plan import first_strength
from planner.plans.routes import Route
from planner.tree.nodes import walk
from planner.tree.references import relations

if TYPE_CHECKING:
    from gateway.statement.beside_rules import Beside
    from gateway.statement.routed import Routed
    from planner.tree.builtins import Builtins

# Routes that EXPLAIN explains, and schema changes that use them.
_EXPLAINED: Final = frozenset({Route.SELECT, Route.INSERT, Route.UPDATE, Route.DELETE, Route.MERGE, Route.EXECUTE})
_CHANGES: Final = frozenset(
    {Route.ALTER, Route.ALTER_SEQUENCE, Route.ALTER_TYPE, Route.SCHEMA_ONLY, Route.CREATE_TABLE, Route.RELAY}
)
# Routes of queries from which a table can be made.
_OF_ROWS: Final = frozenset({Route.SELECT, Route.RELAY, Route.EXECUTE})


class Place(Enum):
    """Where a statement runs in a block with deferred changes."""

    WINDOW = "in a window"
    BESIDE = "outside of any"
    SETTLED = "once all is settled"


class Step(NamedTuple):
    """A step of a schema change in a client's block, and where it is taken."""

    place: Place
    words: str


class Rule(NamedTuple):
    """When statements of a route run in a window, in words and as a function of the statement."""

    words: str
    holds: Callable[[Routed, Builtins], bool]


class Placement(NamedTuple):
    """Where statements of a route run, in this order; if neither holds, once the changes are settled. One that is
    deferred itself takes these `steps`.
    """

    in_window: Rule
    beside: BesideRule = NEVER_BESIDE
    steps: tuple[Step, ...] = ()


def runs_in_window(routed: Routed, builtins: Builtins) -> bool:
    """Whether the statement's effects outlive the window that it runs in."""
    return PLACEMENTS[routed.route].in_window.holds(routed, builtins)


def runs_beside(routed: Routed, builtins: Builtins) -> Beside | None:
    """What the statement needs to run beside the window; None if it may not."""
    return None if routed.query is None else PLACEMENTS[routed.route].beside.found(routed.query, builtins)


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
_ONCE: Final = (Step(Place.WINDOW, "made"),)
PLACEMENTS: Final[Mapping[Route, Placement]] = {
    Route.RELAY: Placement(
        Rule("if it is a query that changes and locks nothing, by functions without effects", _reads), RELAYED_BESIDE
    ),
    Route.SELECT: Placement(Rule("if its functions have no effects", _acts_not)),
    Route.INSERT: Placement(_ALWAYS),
    Route.UPDATE: Placement(_ALWAYS),
    Route.DELETE: Placement(_ALWAYS),
    Route.MERGE: Placement(_ALWAYS),
    Route.WITH_CHANGES: Placement(
        Rule("if it uses lake tables alone, and its functions have no effects", _uses_lake_alone)
    ),
    Route.COPY: Placement(Rule("if its query does, where it has one", _copies)),
    Route.TABLE_AS: Placement(_OF_MADE_ROWS),
    Route.TEMPORARY: Placement(_OF_MADE_ROWS),
    Route.MATERIALIZED: Placement(_ALWAYS),
    Route.REFRESH: Placement(_ALWAYS),
    Route.TRUNCATE: Placement(_ALWAYS, steps=_ONCE),
    Route.LOCK: Placement(_ALWAYS),
    Route.ALTER: Placement(
        _ALWAYS,
        steps=(
            Step(Place.WINDOW, "made, or tried if it rewrites files"),
            Step(Place.BESIDE, "files rewritten"),
            Step(Place.WINDOW, "made with these files"),
        ),
    ),
    Route.SCHEMA_ONLY: Placement(_ALWAYS, steps=_ONCE),
    Route.ALTER_SEQUENCE: Placement(_ALWAYS, steps=_ONCE),
    Route.ALTER_TYPE: Placement(_ALWAYS, steps=(Step(Place.BESIDE, "made, if the type is the block's own"), *_ONCE)),
    Route.CREATE_TABLE: Placement(
        _ALWAYS,
        steps=(
            Step(Place.WINDOW, "tried"),
            Step(Place.BESIDE, "made without foreign keys"),
            Step(Place.WINDOW, "these added"),
        ),
    ),
    Route.MADE: Placement(_ALWAYS, steps=(Step(Place.WINDOW, "tried"), Step(Place.BESIDE, "made"))),
    Route.CONCURRENTLY: Placement(_NEVER),
    Route.CREATE_DATABASE: Placement(_NEVER),
    Route.VACUUM: Placement(_NEVER),
    Route.CLUSTER: Placement(_NEVER),
    Route.EXPLAIN: Placement(
        Rule("if it explains a change of rows or a query, with ANALYZE one that does", _is_explained)
    ),
    Route.DECLARE: Placement(Rule("if the functions of its query have no effects", _declares)),
    Route.FETCH: Placement(Rule("if the cursor is over the lake", _fetches)),
    Route.EXECUTE: Placement(
        Rule("if its arguments are constants, and the prepared statement does", _has_plain_arguments)
    ),
    Route.GUARDED: Placement(_NEVER),
}
assert PLACEMENTS.keys() == set(Route), "a route without a place in blocks"
for _placement in PLACEMENTS.values():
    assert not _placement.steps or _placement.in_window is _ALWAYS, "steps of what may be settled before them"
    assert all(step.place is not Place.SETTLED for step in _placement.steps), "a step that settles"
