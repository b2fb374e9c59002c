"""Opens and closes the windows of a block with deferred changes (gateway/transaction/transactional_ddl.py) for each of
its statements, by the table of `gateway/statement/window_rules.py`.

Before its analysis, a statement is placed by its words; behind it, by its route.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from gateway.session.constraint_modes import stands_beside
from gateway.statement.passthrough_command import prepares
from gateway.statement.window_rules import Place, runs_beside, runs_in_window
from planner.plans.routes import Route, is_utility
from planner.syntax.changed_settings import changed_settings
from planner.syntax.statements import Statement, constraint_modes, needs_no_analysis
from planner.syntax.transaction_commands import transaction_command
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


async def take_place(session: SessionContext, place: Place, settings: Collection[str] = ()) -> Place:
    """Open, close or settle as a statement at that place needs, which changes these settings."""
    deferred = session.transaction.deferred
    match place:
        case Place.WINDOW:
            await deferred.open()
        case Place.BESIDE:
            await deferred.close()
            await deferred.note_settings(settings)
        case Place.SETTLED:
            await deferred.settle()
    return place


async def enter(session: SessionContext, statements: Sequence[Statement]) -> None:
    """Before statements are analysed, or relayed without an analysis: open a window, or check that none is needed."""
    deferred = session.transaction.deferred
    if not deferred.pending or session.backend.status != b"T":
        return
    if deferred.is_worn_out:
        await take_place(session, Place.SETTLED)
    elif all(is_beside(statement) for statement in statements):
        changed = (changed_settings(statement) or () for statement in statements)
        await take_place(session, Place.BESIDE, frozenset(chain.from_iterable(changed)))
    elif (modes := constraint_modes(statements[0])) is not None:
        await take_place(session, Place.BESIDE)
        if session.simple:
            await enter_modes(session, modes)
    elif any(needs_no_look(session, statement) and not prepares(statement) for statement in statements):
        await take_place(session, Place.SETTLED)
    else:
        await take_place(session, Place.WINDOW)


async def enter_modes(session: SessionContext, modes: ConstraintModes) -> None:
    """Before SET CONSTRAINTS: open a window if it names constraints that deferred changes have made."""
    await take_place(session, Place.BESIDE)
    if session.transaction.deferred.pending and not await stands_beside(session, modes):
        await take_place(session, Place.WINDOW)


async def judge(session: SessionContext, routed: Routed) -> Place:
    """Before an analysed statement is executed: enter or leave the window, or settle the block."""
    deferred, builtins = session.transaction.deferred, session.gateway.builtins
    if not deferred.pending:
        return Place.SETTLED
    if stays_in_window(session, routed):
        return Place.WINDOW  # in which it was analysed
    beside = runs_beside(routed, builtins)
    if beside is None or any(map(deferred.minds, beside.names)):
        return await take_place(session, Place.SETTLED)
    return await take_place(session, Place.BESIDE, beside.settings)


def place_from_now_on(session: SessionContext, routed: Routed) -> Place:
    """The place of a relayed statement that is prepared while nothing is deferred."""
    builtins = session.gateway.builtins
    return Place.WINDOW if runs_in_window(routed, builtins) and not _takes_numbers(routed, builtins) else Place.SETTLED


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
