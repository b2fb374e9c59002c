"""Whether an UPDATE or DELETE can be computed over any portion of its table's rows at a time, with the same result."""

from __future__ import annotations

from typing import Final

from planner.plans.computable import functions_of_users
from planner.plans.placement import acts_in_results_alone, may_act
from planner.tree.builtins import Builtins
from planner.tree.nodes import Node, walk
from planner.tree.query_levels import has_sublink
from planner.tree.references import functions, table_places

# It is that of the message in which the client sent the statement; each portion is a message of its own.
_OF_MESSAGE: Final = "statement_timestamp()"


def is_row_wise(query: Node, table_oid: int, builtins: Builtins) -> bool:
    """Whether the outcome of each row depends on no other row of the table, and on nothing that happens once.

    The table stands nowhere but as the target, so no subquery reads it. Functions of users might. Volatile functions
    are called for each row alone: not in FROM or WITH, which a statement computes once, and not beside subqueries,
    which may be computed once.
    """
    if functions_of_users(query) or len([oid for _, _, oid in table_places(query) if oid == table_oid]) != 1:
        return False
    if any(node.type == "RANGETBLENTRY" and node.fields.get("tablesample") for node in walk(query)):
        return False  # each portion would get another sample
    if any(oid in builtins.functions and builtins.signature(oid) == _OF_MESSAGE for oid in functions(query)):
        return False
    return not may_act(query, builtins) or (acts_in_results_alone(query, builtins) and not has_sublink(query))
