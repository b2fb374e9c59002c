"""Which statements run beside the window of a block with deferred changes: their effects stay, and they see none of the
changes (gateway/transaction/transactional_ddl.py). `gateway/statement/window_rules.py` has the table that uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from catalog.datatypes import BOOL, INT2, INT4, INT8, TEXT, UNKNOWN
from gateway.statement.read_only_query import only_reads
from planner.plans.computable import LOCKS_AND_NOTICES
from planner.plans.routes import is_utility
from planner.syntax.changed_settings import configured_settings
from planner.tree.nodes import constants, name_of, walk
from planner.tree.references import functions, relations

if TYPE_CHECKING:
    from planner.tree.builtins import Builtins
    from planner.tree.nodes import Node

# Constants whose text may become a name in the catalog, and the types that cannot.
_TYPED: Final = {"CONST": "consttype", "PARAM": "paramtype", "COERCEVIAIO": "resulttype"}
_PLAIN_TYPES: Final = frozenset({BOOL, INT2, INT4, INT8, TEXT, UNKNOWN})


class Beside(NamedTuple):
    """A statement that may run beside the window: if no deferred change minds one of these `names` of tables. It
    changes these `settings`.
    """

    names: Sequence[str] = ()
    settings: frozenset[str] = frozenset()


class BesideRule(NamedTuple):
    """When statements of a route run beside the window, in words and as a function of the statement."""

    words: str
    found: Callable[[Node, Builtins], Beside | None]


def _configuring(query: Node, builtins: Builtins) -> Beside | None:
    """A query that changes settings, and does nothing else."""
    if not only_reads(query, builtins, frozenset({"set_config"})):
        return None
    settings = configured_settings(query, builtins)
    return None if settings is None else Beside(settings=settings)


def _locking(query: Node, builtins: Builtins) -> Beside | None:
    """A query that takes advisory locks or the like, which a window would undo, and names no object that a deferred
    change may have made.
    """
    if relations(query) or not only_reads(query, builtins, LOCKS_AND_NOTICES):
        return None
    for node in chain(walk(query), constants(query)):
        if (field := _TYPED.get(node.type)) is not None and int(node.fields[field]) not in _PLAIN_TYPES:
            return None
    plain = all(
        builtins.functions[oid].volatility == "i" or builtins.functions[oid].name in LOCKS_AND_NOTICES
        for oid in functions(query)
    )
    return Beside() if plain else None


def _making(query: Node, _: Builtins) -> Beside | None:
    """A table that names no others but in LIKE, a schema, a sequence that no column owns, or an enumeration. No other
    session can wait for such objects.
    """
    if not is_utility(query):
        return None
    utility = query.utilityStmt
    if utility.type == "CREATEENUMSTMT":
        return Beside([name_of(utility.typeName[-1])])
    if utility.type == "CREATESCHEMASTMT" and not utility.fields.get("schemaElts"):
        return Beside([name_of(utility.schemaname)]) if utility.fields.get("schemaname") else None
    if utility.type == "CREATESEQSTMT" and all(name_of(each.defname) != "owned_by" for each in utility.options or ()):
        return Beside([name_of(utility.sequence.relname)])
    if utility.type != "CREATESTMT":
        return None
    liked = [node.relation for node in walk(utility) if node.type == "TABLELIKECLAUSE"]
    if sum(node.type == "RANGEVAR" for node in walk(utility)) > 1 + len(liked):
        return None
    return Beside([name_of(relation.relname) for relation in (utility.relation, *liked)])


def _relayed(query: Node, builtins: Builtins) -> Beside | None:
    found = (rule(query, builtins) for rule in (_configuring, _locking, _making))
    return next((each for each in found if each is not None), None)


NEVER_BESIDE: Final = BesideRule("no", lambda _query, _builtins: None)
RELAYED_BESIDE: Final = BesideRule(
    "if it only changes settings, takes advisory locks or notifies over plain constants, or makes a table, a schema, a"
    " sequence or an enumeration whose name no change minds",
    _relayed,
)
