"""Whether a query leaves nothing behind at the backend, but for functions that are known to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.plans.routes import Route, command, is_utility
from planner.tree.references import functions

if TYPE_CHECKING:
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


def only_reads(query: Node, builtins: Builtins, besides: frozenset[str] = frozenset()) -> bool:
    """Whether a query changes and locks nothing, and calls only functions without effects, but for those `besides`."""
    if is_utility(query) or command(query) is not Route.SELECT or query.hasModifyingCTE or query.rowMarks:
        return False
    for oid in functions(query):
        known = builtins.functions.get(oid)
        if known is None or (known.volatility == "v" and known.name not in TRACELESS | besides):
            return False
    return True
