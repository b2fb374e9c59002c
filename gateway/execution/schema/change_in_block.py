"""Schema changes in the client's block: opens and closes windows for the steps of a change, by the table of
`gateway/statement/window_rules.py`, and defers what they have made.

Portals carry the steps out; none opens or closes a window (gateway/transaction/transactional_ddl.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING

from gateway.execution.schema.deferred_validation import Deferral, defer, may_defer
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import PLACEMENTS, Place

if TYPE_CHECKING:
    from gateway.statement.portal import StatementPortal


class Outcome(Enum):
    """What a step leaves to be done, if it has made nothing to defer."""

    NEXT_STEP = "the next step"
    MADE = "nothing"
    SETTLING = "all of it, once the changes before are settled"


Act = Callable[[], Awaitable[Deferral | Outcome]]


async def in_block(
    portal: StatementPortal,
    locked: Iterable[int] | None,
    *acts: Act | None,
    discard: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Make a change that locks these tables in the client's block, by one act for each step of its route, or None where
    the step is left out. False with nothing done, and nothing deferred any more, if the statement is to be carried out
    as it stands; so is one that locks None. `discard` removes what acts have written, if one fails.
    """
    return await may_step(portal, locked) and await take_steps(portal, *acts, discard=discard)


async def may_step(portal: StatementPortal, locked: Iterable[int] | None) -> bool:
    """Whether the change can be deferred. If not, those before it are settled."""
    if locked is not None and await may_defer(portal.session, locked):
        return True
    await take_place(portal.session, Place.SETTLED)
    return False


async def take_steps(
    portal: StatementPortal, *acts: Act | None, discard: Callable[[], Awaitable[None]] | None = None
) -> bool:
    """`in_block`, of a change that can be deferred."""
    session = portal.session
    try:
        outcome = await _outcome(portal, acts)
    except BaseException:
        if discard is not None:
            await discard()
        raise
    if isinstance(outcome, Deferral):
        await defer(session, portal.analysis, outcome)
    else:
        await take_place(session, Place.SETTLED if outcome is Outcome.SETTLING else Place.BESIDE)
    return outcome is not Outcome.SETTLING


async def _outcome(portal: StatementPortal, acts: Iterable[Act | None]) -> Deferral | Outcome:
    """What the first step leaves that is not followed by another."""
    outcome: Deferral | Outcome = Outcome.NEXT_STEP
    for step, act in zip(PLACEMENTS[portal.routed.route].steps, acts, strict=True):
        if act is not None:
            await take_place(portal.session, step.place)
            outcome = await act()
            if outcome is not Outcome.NEXT_STEP:
                return outcome
    raise AssertionError(f"steps of {portal.routed.route} that end nowhere")
