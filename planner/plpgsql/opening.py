"""Finds the statements of a body that the gateway carries out itself: what ends transactions, and what surrounds it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from planner.plpgsql.nodes import (
    Block,
    Body,
    Calling,
    Characteristics,
    Choice,
    Diagnosing,
    Ending,
    Jump,
    Leaving,
    Loop,
    Plain,
    Statement,
    inner,
    walk,
)
from planner.plpgsql.parser import changes_rows

# Words of texts that may end a transaction, by themselves or by what they call.
ENDING_WORDS: Final = frozenset({"commit", "rollback", "call", "do"})
SUBTRANSACTION: Final = {
    True: "cannot commit while a subtransaction is active",
    False: "cannot roll back while a subtransaction is active",
}
CHANGING_LOOP: Final = "cannot perform transaction commands inside a cursor loop that is not read-only"
# PostgreSQL's codes for an ending that cannot take place, by its message.
CODES: Final = {**dict.fromkeys(SUBTRANSACTION.values(), "2D000"), CHANGING_LOOP: "55000"}


class Opened:
    """Which statements of a body are opened. All others are executed by PostgreSQL as they are."""

    def __init__(self, body: Body, procedures: Collection[str]) -> None:
        """`procedures` are the names of procedures that may end transactions."""
        self._text = body.text
        self._procedures = procedures
        self._opened: dict[int, bool] = {}
        # Endings that cannot take place, and why.
        self.forbidden: list[tuple[Ending, str]] = []
        self.calls_within_changes: list[Statement] = []
        self.any = self._open(body.block, None)

    def __contains__(self, statement: Statement) -> bool:
        return self._opened[id(statement)]

    def _open(self, statement: Statement, why_not: str | None) -> bool:
        """Look at a statement and all inside of it. `why_not`: something around it keeps transactions from ending; it
        is "" in a block with handlers.
        """
        if isinstance(statement, Ending) and why_not is not None:
            self.forbidden.append((statement, why_not or SUBTRANSACTION[statement.commits]))
        elif why_not == CHANGING_LOOP and self._ends(statement):
            self.calls_within_changes.append(statement)
        opened = why_not is None and self._ends(statement)
        if isinstance(statement, Loop) and why_not is None and _over_rows(statement):
            why_not = CHANGING_LOOP if changes_rows(statement, self._text) else None
        for index, statements in enumerate(inner(statement)):
            is_protected = isinstance(statement, Block) and bool(statement.handlers) and index == 0
            inside = [self._open(each, "" if is_protected else why_not) for each in statements]
            opened = opened or any(inside)
        self._opened[id(statement)] = opened
        return opened

    def _ends(self, statement: Statement) -> bool:
        match statement:
            case Ending() | Characteristics():
                return True
            case Calling():
                return statement.name in self._procedures
            case Plain(word="do"):
                return _names_ending(statement.of(self._text))
            case _:
                return False


def _over_rows(loop: Loop) -> bool:
    return bool(loop.header.end > loop.header.start) and not loop.bounds


def _names_ending(text: str) -> bool:
    """Whether a text has one of the words, also within its strings."""
    lowered = text.lower()
    return any(word in lowered for word in ENDING_WORDS - {"do"})


def called(body: Body) -> set[str]:
    """The names of the procedures that a body calls."""
    return {each.name for each in walk(body.block) if isinstance(each, Calling)}


def outward(statements: Iterable[Statement]) -> Iterator[Leaving]:
    """EXIT, CONTINUE and RETURN that leave these statements, and RAISE of an error that is caught around them."""
    for statement in statements:
        yield from _leaving(statement, frozenset(), in_loop=False)


def about_caught(statements: Iterable[Statement]) -> Iterator[Leaving | Diagnosing]:
    """RAISE and GET STACKED DIAGNOSTICS of an error that is caught around these statements."""
    for statement in statements:
        match statement:
            case Leaving(jump=Jump.RAISE) | Diagnosing():
                yield statement
            case Block():
                yield from about_caught(statement.body)
            case _:
                for inside in inner(statement):
                    yield from about_caught(inside)


def _leaving(statement: Statement, labels: frozenset[str], *, in_loop: bool) -> Iterator[Leaving]:
    match statement:
        case Leaving(jump=Jump.RETURN):
            yield statement
        case Leaving(jump=Jump.RAISE):
            return  # see `about_caught`
        case Leaving(label=None):
            if not in_loop:
                yield statement
        case Leaving():
            if statement.label not in labels:
                yield statement
        case Block() | Loop() | Choice():
            if not isinstance(statement, Choice) and statement.label is not None:
                labels |= {statement.label}
            within = in_loop or isinstance(statement, Loop)
            for statements in inner(statement):
                for each in statements:
                    yield from _leaving(each, labels, in_loop=within)
        case _:
            return
