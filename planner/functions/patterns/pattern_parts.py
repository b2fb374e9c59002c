"""Looks into parsed patterns: their parts, and the characters with which matches begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.functions.patterns.regular_expressions import (
    NO_CHARACTERS,
    Anchor,
    Atom,
    Characters,
    Choice,
    Expression,
    Group,
    Repeat,
    Sequence,
    can_be_empty,
)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all in it, from the left."""
    yield expression
    match expression:
        case Group(body=body) | Repeat(body=body):
            yield from walk(body)
        case Sequence(parts=several) | Choice(branches=several):
            for part in several:
                yield from walk(part)
        case _:
            pass


def flat(expression: Expression, *, captured: bool = False) -> list[Expression]:
    """Return the parts of a sequence, those of `(?:…)` in place of it, and of `(…)` if they may be `captured`."""
    if isinstance(expression, Sequence):
        return [part for item in expression.parts for part in flat(item, captured=captured)]
    if isinstance(expression, Group) and (captured or expression.number is None):
        found = flat(expression.body, captured=captured)
        return [Group(each, None) if isinstance(each, Choice) else each for each in found]
    return [expression]


def first_characters(expression: Expression) -> Characters:
    """Return the characters that a match of the expression may begin with."""
    match expression:
        case Atom(characters=characters):
            return characters
        case Anchor():
            return NO_CHARACTERS
        case Group(body=body) | Repeat(body=body):
            return first_characters(body)
        case Sequence(parts=parts):
            found = NO_CHARACTERS
            for part in parts:
                found |= first_characters(part)
                if not can_be_empty(part):
                    break
            return found
        case Choice(branches=branches):
            found = NO_CHARACTERS
            for branch in branches:
                found |= first_characters(branch)
            return found


def is_decided(branches: Iterable[Expression]) -> bool:
    """Whether the next character decides which branch matches."""
    seen = NO_CHARACTERS
    for branch in branches:
        begins = first_characters(branch)
        if can_be_empty(branch) or begins.meets(seen):
            return False
        seen |= begins
    return True
