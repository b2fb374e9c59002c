"""Decides which statements of a block with deferred changes run in a window
(gateway/transaction/transactional_ddl.py).

`gateway/statement/window_rules.py` has the table of statements that run in a window. A statement that names none of the
changed tables runs beside it. All others settle the deferred changes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

from catalog.datatypes import BOOL, INT2, INT4, INT8, TEXT, UNKNOWN
from gateway.session.constraint_modes import stands_beside
from gateway.statement.passthrough_command import prepares
from gateway.statement.window_rules import only_reads, runs_in_window
from planner.plans.computable import LOCKS_AND_NOTICES
from planner.plans.routes import Route, is_utility
from planner.syntax.changed_settings import changed_settings, configured_settings
from planner.syntax.statements import Statement, constraint_modes, needs_no_analysis
from planner.syntax.transaction_commands import transaction_command
from planner.tree.nodes import constants, name_of, walk
from planner.tree.references import functions, relations
from planner.tree.sequence_usage import takes_numbers

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.syntax.statements import ConstraintModes
    from planner.tree.builtins import Builtins

# First words of statements that PostgreSQL answers without reading a table, and whose effect a window would undo.
_BESIDE: Final = frozenset({
    "checkpoint", "close", "deallocate", "listen", "load", "notify", "security", "show", "unlisten",
})  # fmt: skip
# These change schemas without an analysis; they can be deferred too.
_CHANGING: Final = frozenset({"comment", "grant", "revoke"})
# Constants whose text may become a name in the catalog, and the types that cannot.
_TYPED: Final = {"CONST": "consttype", "PARAM": "paramtype", "COERCEVIAIO": "resulttype"}
_PLAIN_TYPES: Final = frozenset({BOOL, INT2, INT4, INT8, TEXT, UNKNOWN})


def is_beside(statement: Statement) -> bool:
    """Whether it runs outside of any window."""
    return (
        statement.first_word in _BESIDE
        or transaction_command(statement) is not None
        or changed_settings(statement) is not None
    )


def needs_no_look(session: SessionContext, statement: Statement) -> bool:
    """Whether the statement can be relayed without an analysis (planner.syntax.statements.needs_no_analysis)."""
    transaction = session.transaction
    if transaction.deferred.pending and statement.first_word in _CHANGING:
        return False
    return needs_no_analysis(statement, enlisted=transaction.enlistment.any)


def need_no_look(session: SessionContext, statements: Sequence[Statement]) -> bool:
    """`needs_no_look` of all of them."""
    return all(needs_no_look(session, statement) for statement in statements)


async def enter(session: SessionContext, statements: Sequence[Statement]) -> None:
    """Before statements are analysed, or relayed without an analysis: open a window, or check that none is needed."""
    deferred = session.transaction.deferred
    if not deferred.pending or session.backend.status != b"T":
        return
    if deferred.is_worn_out:
        await deferred.settle()
    elif all(is_beside(statement) for statement in statements):
        await deferred.close()
        await deferred.note_settings(*(changed_settings(statement) or () for statement in statements))
    elif (modes := constraint_modes(statements[0])) is not None:
        await deferred.close()
        if session.simple:
            await enter_modes(session, modes)
    elif any(needs_no_look(session, statement) and not prepares(statement) for statement in statements):
        await deferred.settle()
    else:
        await deferred.open()


async def enter_modes(session: SessionContext, modes: ConstraintModes) -> None:
    """Before SET CONSTRAINTS: open a window if it names constraints that deferred changes have made."""
    deferred = session.transaction.deferred
    await deferred.close()
    if deferred.pending and not await stands_beside(session, modes):
        await deferred.open()


class Place(Enum):
    """Where a statement runs in a block with deferred changes."""

    WINDOW = "in a window"
    BESIDE = "outside of any"
    SETTLED = "once all is settled"


async def judge(session: SessionContext, routed: Routed) -> Place:
    """Before an analysed statement is executed: enter or leave the window, or settle the block."""
    deferred = session.transaction.deferred
    if not deferred.pending:
        return Place.SETTLED
    builtins = session.gateway.builtins
    if stays_in_window(session, routed):
        return Place.WINDOW
    if (configured := _configured(routed, builtins)) is not None:
        await deferred.close()
        await deferred.note_settings(configured)
        return Place.BESIDE
    if acts_alone(routed, builtins):
        await deferred.close()
        return Place.BESIDE
    made = _made_alone(routed)
    if made is not None and not any(map(deferred.minds, made)):
        await deferred.close()
        return Place.BESIDE
    await deferred.settle()
    return Place.SETTLED


def place_from_now_on(session: SessionContext, routed: Routed) -> Place:
    """The place of a relayed statement that is prepared while nothing is deferred."""
    builtins = session.gateway.builtins
    return Place.WINDOW if runs_in_window(routed, builtins) and not _takes_numbers(routed, builtins) else Place.SETTLED


def _made_alone(routed: Routed) -> list[str] | None:
    """The name of the new object, and of the tables in LIKE, for a table that names no others, a schema, a sequence
    that no column owns, or an enumeration. No other session can wait for such objects.
    """
    query = routed.query
    if routed.route is not Route.RELAY or query is None or not is_utility(query):
        return None
    utility = query.utilityStmt
    if utility.type == "CREATEENUMSTMT":
        return [name_of(utility.typeName[-1])]
    if utility.type == "CREATESCHEMASTMT" and not utility.fields.get("schemaElts"):
        return [name_of(utility.schemaname)] if utility.fields.get("schemaname") else None
    if utility.type == "CREATESEQSTMT" and all(name_of(each.defname) != "owned_by" for each in utility.options or ()):
        return [name_of(utility.sequence.relname)]
    if utility.type != "CREATESTMT":
        return None
    liked = [node.relation for node in walk(utility) if node.type == "TABLELIKECLAUSE"]
    if sum(node.type == "RANGEVAR" for node in walk(utility)) > 1 + len(liked):
        return None
    return [name_of(relation.relname) for relation in (utility.relation, *liked)]


def acts_alone(routed: Routed, builtins: Builtins) -> bool:
    """Whether a query takes advisory locks or the like, which a window would undo, and names no object that a deferred
    change may have made.
    """
    query = routed.query
    if routed.route is not Route.RELAY or query is None or relations(query):
        return False
    if not only_reads(query, builtins, LOCKS_AND_NOTICES):
        return False
    for node in chain(walk(query), constants(query)):
        if (field := _TYPED.get(node.type)) is not None and int(node.fields[field]) not in _PLAIN_TYPES:
            return False
    return all(
        builtins.functions[oid].volatility == "i" or builtins.functions[oid].name in LOCKS_AND_NOTICES
        for oid in functions(query)
    )


def stays_in_window(session: SessionContext, routed: Routed) -> bool:
    """Whether the statement can run in a window with the present deferred changes."""
    builtins = session.gateway.builtins
    if session.transaction.deferred.recounts and _takes_numbers(routed, builtins):
        return False
    return runs_in_window(routed, builtins)


def _takes_numbers(routed: Routed, builtins: Builtins) -> bool:
    if routed.inner_routed is not None:
        return _takes_numbers(routed.inner_routed, builtins)
    if routed.query is None or is_utility(routed.query):
        return routed.route in (Route.COPY, Route.MATERIALIZED, Route.REFRESH)
    return takes_numbers(routed.query, builtins)


def _configured(routed: Routed, builtins: Builtins) -> frozenset[str] | None:
    """The settings that a query changes, if it does nothing else."""
    query = routed.query
    if routed.route is not Route.RELAY or query is None or not only_reads(query, builtins, frozenset({"set_config"})):
        return None
    return configured_settings(query, builtins)
