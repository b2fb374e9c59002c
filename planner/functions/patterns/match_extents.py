"""Whether a backtracking engine finds exactly PostgreSQL's match, groups included.

PostgreSQL takes the longest match at the leftmost place (the shortest, if the pattern's first quantifier is not
greedy), and inside of it each part from the left its longest (or shortest). Java takes the first that its search meets.
They agree if

- the pattern is deterministic: the next character alone decides, so there is only one way to match, and greedy
  quantifiers all go to its end, or reluctant ones all to its first possible end; or
- it is a plain sequence: it has no alternation, quantifies single characters only, and has at most one part of varying
  length between one capturing parenthesis and the next. With more than one such part in all, the pattern must end in
  `$`, which leaves only one end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from planner.functions.patterns.pattern_parts import first_characters, flat, is_decided, walk
from planner.functions.patterns.regular_expressions import (
    NO_CHARACTERS,
    Anchor,
    Atom,
    Characters,
    Choice,
    Expression,
    Group,
    Pattern,
    Repeat,
    Sequence,
    can_be_empty,
    parse,
    refused,
)


def parse_test(pattern: str, insensitive: bool = False) -> Pattern:
    """Return the pattern, if it is certain whether it matches; 0A000 for any other."""
    found = parse(pattern, insensitive)
    if not _loops_are_flat(found.body):
        raise refused(pattern)
    return found


def parse_match(pattern: str, insensitive: bool = False) -> Pattern:
    """Return the pattern, if the place and the groups of its match are certain; 0A000 for any other."""
    found = parse_test(pattern, insensitive)
    if not (_is_deterministic(found.body) or _is_plain_sequence(found.body)):
        raise refused(pattern)
    return found


def groups(expression: Expression, certain: bool = True) -> Iterator[tuple[Group, bool]]:
    """Yield the capturing groups, each with whether it takes part in every match."""
    match expression:
        case Group(body=body, number=number):
            if number is not None:
                yield expression, certain
            yield from groups(body, certain)
        case Repeat(body=body, least=least):
            yield from groups(body, certain and least > 0)
        case Sequence(parts=parts):
            for part in parts:
                yield from groups(part, certain)
        case Choice(branches=branches):
            for branch in branches:
                yield from groups(branch, False)
        case _:
            pass


# --- loops over groups ---

_ROUNDS_MAX: Final = 500


def _loops_are_flat(body: Expression) -> bool:
    """Whether Java repeats groups without a call for each round; its stack has no room for many.

    It does if the quantifier is possessive, as `regular_expressions` writes it for groups without an upper bound. That
    means the same if the pattern is deterministic and has no anchor on the way.
    """
    loops = [repeat for repeat in _repeats(body) if isinstance(repeat.body, Group)]
    if math.prod(repeat.most or 1 for repeat in loops) > _ROUNDS_MAX:
        return False
    if all(repeat.most is not None for repeat in loops):
        return True
    parts = body.parts if isinstance(body, Sequence) else (body,)
    rest = Sequence(parts[1:] if isinstance(parts[0], Anchor) else parts)
    greedy = all(repeat.greedy for repeat in _repeats(body))
    return greedy and all(each.is_end for each in walk(rest) if isinstance(each, Anchor)) and _is_deterministic(body)


# --- determinism ---


def _is_deterministic(body: Expression) -> bool:
    kinds = {repeat.greedy for repeat in _repeats(body) if repeat.least != repeat.most}
    if len(kinds) > 1 or (kinds == {False} and any(isinstance(each, Choice) for each in walk(body))):
        return False
    return _decides(body, NO_CHARACTERS)


def _decides(expression: Expression, follow: Characters) -> bool:
    """Whether the next character decides each choice inside, if `follow` may come after the expression."""
    match expression:
        case Group(body=body):
            return _decides(body, follow)
        case Repeat(body=body, least=least, most=most):
            if least != most and first_characters(body).meets(follow):
                return False
            return _decides(body, follow if most == 1 else follow | first_characters(body))
        case Sequence(parts=parts):
            for part in reversed(parts):
                if not _decides(part, follow):
                    return False
                follow = first_characters(part) | follow if can_be_empty(part) else first_characters(part)
            return True
        case Choice(branches=branches):
            return is_decided(branches) and all(_decides(branch, follow) for branch in branches)
        case _:
            return True


def _repeats(expression: Expression) -> list[Repeat]:
    return [each for each in walk(expression) if isinstance(each, Repeat)]


# --- plain sequences ---


def _is_plain_sequence(body: Expression) -> bool:
    parts = flat(body)
    runs: list[int] = [0]  # how many parts vary in length, outside of groups and in each group
    for part in parts:
        match part:
            case Group(body=inner):
                variable = 0
                for piece in flat(inner):
                    if isinstance(piece, (Group, Choice)) or not _is_simple(piece):
                        return False
                    variable += _varies(piece)
                runs += [variable, 0]
            case Choice():
                return False
            case _:
                if not _is_simple(part):
                    return False
                runs[-1] += _varies(part)
    if max(runs) > 1:
        return False
    last = parts[-1] if parts else None
    return sum(runs) <= 1 or (isinstance(last, Anchor) and last.is_end)


def _is_simple(expression: Expression) -> bool:
    return isinstance(expression, (Atom, Anchor)) or (
        isinstance(expression, Repeat) and isinstance(expression.body, Atom)
    )


def _varies(expression: Expression) -> bool:
    return isinstance(expression, Repeat) and expression.least != expression.most
