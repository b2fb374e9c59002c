"""Patterns for which Java takes steps in proportion to the text, as PostgreSQL does.

Java tries one way to match after the other, from each place of the text, and cannot be stopped meanwhile: over one
text it may take years, on a core of Spark's. So

- a test looks for parts of bounded length, with anything between them, once each, from the left;
- a pattern that begins with a loop is looked for at the beginning of each run of the loop's characters only;
- for any other pattern, `Pattern.slow` finds the texts over which it is too slow: runs in which the search begins, or
  loops end, at too many places. A pattern is refused if it would be slow over many texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

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
    Slow,
    can_be_empty,
    java_of,
    refused,
)
from planner.functions.patterns.regular_expressions import Sequence as Parts

# Steps for each character of a text.
_STEPS_MAX: Final = 1_000
# Shorter runs are too common to be refused.
_RUN_MIN: Final = 20
# Of one part: what it may match, and how long that is; longer ones are not compared. Planning takes a moment.
_ALTERNATIVES_MAX: Final = 16
_LENGTH_MAX: Final = 1_000
_COMPARED_LENGTH_MAX: Final = 16
_ANY: Final = "."
_START: Final = Anchor(r"\A")
_END: Final = Anchor(r"\z", is_end=True)


def search(pattern: Pattern) -> Pattern:
    """Return the pattern as Java looks for its matches; 0A000 if it is slow over many texts."""
    parts = _without_end(flat(pattern.body, captured=True))
    leading = parts[0] if parts and _is_loop(parts[0]) else None
    ways, loops = 1, list[_Loop]()
    for each in _steps(Parts(tuple(parts[1:] if leading else parts)), NO_CHARACTERS):
        if isinstance(each, _Loop):
            loops.append(each)
        else:
            ways *= each
    if leading:
        characters = java_of(leading.body)
        loops = [each for each in loops if not (each.is_decided and each.characters == {characters})]
        pattern = replace(pattern, start=rf"(?:(?<!{characters})|\G)")
    return replace(pattern, slow=_slow(pattern, parts, ways, loops, has_start=leading is not None))


def search_for_test(pattern: Pattern) -> tuple[str, Slow | None]:
    """Return what Java looks for to tell whether a text matches, and `Pattern.slow`."""
    body = _for_test(pattern.body)
    parts = _parts_between(body)
    if parts is not None:
        return pattern.flags + parts, None
    found = search(replace(pattern, body=body))
    return found.java(), found.slow


# --- steps ---


@dataclass(frozen=True, slots=True)
class _Loop:
    """A repetition without a bound. `is_decided`: the next character tells whether it goes on."""

    characters: frozenset[str]  # in Java's spelling
    is_decided: bool


def _without_end(parts: Sequence[Expression]) -> list[Expression]:
    """Return the parts without loops at the end behind which nothing fails."""
    found = list(parts)
    while found:
        if found[-1] == _END and len(found) > 1 and _is_loop(found[-2]) and _is_anything(found[-2]):
            del found[-1]
        last = found[-1]
        if not _is_loop(last):
            break
        found[-1:] = [Repeat(last.body, last.least, last.least)] if last.least else []
        if last.least:
            break
    return found


def _is_loop(expression: Expression) -> TypeGuard[Repeat]:
    return isinstance(expression, Repeat) and expression.most is None and isinstance(expression.body, Atom)


def _is_anything(expression: Expression) -> bool:
    return isinstance(expression, Repeat) and isinstance(expression.body, Atom) and expression.body.java == _ANY


def _steps(expression: Expression, follow: Characters) -> Iterator[_Loop | int]:
    """Yield the loops, and in how many ways other parts match at one place."""
    match expression:
        case Group(body=body):
            yield from _steps(body, follow)
        case Repeat():
            yield from _steps_of_repeat(expression, follow)
        case Parts(parts=parts):
            for part in reversed(parts):
                yield from _steps(part, follow)
                follow = first_characters(part) | follow if can_be_empty(part) else first_characters(part)
        case Choice(branches=branches):
            several = [list(_steps(branch, follow)) for branch in branches]
            yield 1 if is_decided(branches) else len(branches)
            for steps in several:
                yield from steps
        case _:
            pass


def _steps_of_repeat(repeat: Repeat, follow: Characters) -> Iterator[_Loop | int]:
    body, least, most = repeat.body, repeat.least, repeat.most
    begins = first_characters(body)
    inner = list(_steps(body, follow if most == 1 else follow | begins))
    is_decided = least == most or not begins.meets(follow)
    if most is None:
        # A group is repeated without a bound only if its characters decide everything: match_extents.
        yield _Loop(_spelled(body), is_decided)
        yield from inner
        return
    yield 1 if is_decided else most - least + 1
    for each in inner:
        yield from [each] * most if isinstance(each, int) and each > 1 else [each]
        if isinstance(each, _Loop) and most > 1:
            yield from [replace(each, is_decided=False)] * (most - 1)


def _atoms(expression: Expression) -> Iterator[Atom]:
    return (each for each in walk(expression) if isinstance(each, Atom))


def _spelled(expression: Expression) -> frozenset[str]:
    return frozenset(atom.java for atom in _atoms(expression))


def _slow(
    pattern: Pattern, parts: Sequence[Expression], ways: int, loops: Sequence[_Loop], *, has_start: bool
) -> Slow | None:
    """Return what finds texts over which the search is too slow. From one place it takes as many steps as the longest
    run of a loop, once for each place where another loop may end.
    """
    undecided = sum(not each.is_decided for each in loops)
    together = undecided + (undecided < len(loops))
    if parts[:1] == [_START]:
        together -= 1  # there is one place
    if ways > _STEPS_MAX:
        raise refused(pattern.source)
    if together <= 0:
        return None
    most = int((_STEPS_MAX / ways) ** (1 / together))
    if most < _RUN_MIN:
        raise refused(pattern.source)
    characters = frozenset[str]().union(*(each.characters for each in loops))
    run = _ANY if _ANY in characters else f"[{''.join(sorted(characters))}]"
    begins = None if has_start or together > 1 or parts[:1] == [_START] else _first_atoms(Parts(tuple(parts)))
    if begins is None or _ANY in begins:
        return Slow(most, f"{pattern.flags}(?<!{run}){run}{{{most}}}")
    if not any(_meets(Parts(tuple(parts)), each) for each in loops):
        return None  # the search begins at no place within a run
    place = f"[{''.join(sorted(begins))}]"
    other = f"[^{place}]"
    if run != _ANY:
        place, other = f"[{run}&&{place}]", f"[{run}&&{other}]"
    return Slow(most, f"{pattern.flags}(?<!{run})(?:{other}*+{place}){{{most}}}")


def _first_atoms(expression: Expression) -> frozenset[str] | None:
    """Return the atoms with which a match begins; None if it may be empty."""
    if can_be_empty(expression):
        return None
    match expression:
        case Atom(java=java):
            return frozenset({java})
        case Group(body=body) | Repeat(body=body):
            return _first_atoms(body)
        case Choice(branches=branches):
            return frozenset[str]().union(*(_first_atoms(branch) or {_ANY} for branch in branches))
        case Parts(parts=parts):
            found = frozenset[str]()
            for part in parts:
                if not isinstance(part, Anchor):
                    found |= _spelled(part) if can_be_empty(part) else _first_atoms(part) or frozenset()
                if not can_be_empty(part):
                    break
            return found
        case _:
            return None


def _meets(expression: Expression, loop: _Loop) -> bool:
    begins = first_characters(expression)
    return any(atom.characters.meets(begins) for atom in _atoms(expression) if atom.java in loop.characters)


# --- tests ---


def _for_test(body: Expression) -> Expression:
    """Return an expression that matches somewhere in the same texts, without loops at its ends."""
    if isinstance(body, Choice):
        return Choice(tuple(map(_for_test, body.branches)))
    parts = flat(body, captured=True)
    while parts and isinstance(parts[0], Repeat) and parts[0].most is None:
        parts[:1] = _least(parts[0])
    while parts and isinstance(parts[-1], Repeat) and parts[-1].most is None:
        parts[-1:] = _least(parts[-1])
    return Parts(tuple(parts))


def _least(repeat: Repeat) -> list[Expression]:
    if repeat.least > 1:
        return [Repeat(repeat.body, repeat.least, repeat.least)]
    return flat(repeat.body, captured=True) if repeat.least else []


def _parts_between(body: Expression) -> str | None:
    """Return Java's pattern for parts of bounded length with anything between them; None for another expression. What
    follows a part matches behind its first place, if behind any, because no later match of it ends earlier.
    """
    if isinstance(body, Choice):
        several = [_parts_between(branch) for branch in body.branches]
        return None if None in several else f"(?:{'|'.join(filter(None, several))})"
    pieces = list[list[Expression]]([[]])
    for part in flat(body, captured=True):
        if _is_loop(part) and _is_anything(part):
            pieces[-1] += [part.body] * part.least
            pieces.append([])
        else:
            pieces[-1].append(part)
    begins, ends = pieces[0][:1] == [_START], len(pieces) > 1 and pieces[-1][-1:] == [_END]
    inner = pieces[1 if begins else 0 : -1 if ends else None]
    if len(pieces) == 1:
        return None
    ends_of_text = (pieces[0][1:] if begins else [], pieces[-1][:-1] if ends else [])
    if not (all(map(_has_bounded_length, ends_of_text)) and all(map(_ends_first, inner))):
        return None
    looked_for = "".join(f"(?>.*?{java_of(Parts(tuple(piece)))})" for piece in inner if piece)
    start = java_of(Parts(tuple(pieces[0][1:]))) if begins else ""
    return rf"\A{start}{looked_for}" + (f".*{java_of(Parts(tuple(pieces[-1])))}" if ends else "")


def _has_bounded_length(piece: Sequence[Expression]) -> bool:
    return _joined(piece) is not None


def _ends_first(piece: Sequence[Expression]) -> bool:
    """Whether the piece is of bounded length, and the match that begins first also ends first: none lies inside of
    another and ends earlier.
    """
    several = _joined(piece)
    if several is None:
        return False
    lengths = {len(each) for each in several}
    if len(lengths) == 1:
        return True
    return max(lengths) <= _COMPARED_LENGTH_MAX and not any(
        _may_contain(outer, inner) for outer in several for inner in several
    )


def _may_contain(outer: tuple[Atom, ...], inner: tuple[Atom, ...]) -> bool:
    return any(
        all(one.characters.meets(other.characters) for one, other in zip(inner, outer[start:], strict=False))
        for start in range(len(outer) - len(inner))
    )


def _alternatives(expression: Expression) -> list[tuple[Atom, ...]] | None:
    """Return what the expression matches, as sequences of atoms; None for too much."""
    match expression:
        case Atom():
            return [(expression,)]
        case Anchor():
            return None if expression in (_START, _END) else [()]
        case Group(body=body):
            return _alternatives(body)
        case Repeat(body=body, least=least, most=int(most)) if most - least < _ALTERNATIVES_MAX:
            return _repeated(_alternatives(body), least, most)
        case Parts(parts=parts):
            return _joined(parts)
        case Choice(branches=branches) if len(branches) <= _ALTERNATIVES_MAX:
            several = [_alternatives(branch) for branch in branches]
            found = [each for one in several for each in one or ()]
            return None if None in several or len(found) > _ALTERNATIVES_MAX else found
        case _:
            return None


def _repeated(inner: list[tuple[Atom, ...]] | None, least: int, most: int) -> list[tuple[Atom, ...]] | None:
    if inner is None or any(len(each) * most > _LENGTH_MAX for each in inner):
        return None
    if len(inner) == 1:
        return [inner[0] * count for count in range(least, most + 1)]
    found, power = list[tuple[Atom, ...]](), list[tuple[Atom, ...]]([()])
    for count in range(most + 1):
        found += power if count >= least else []
        power = [(*one, *other) for one in power for other in inner]
        if len(found) > _ALTERNATIVES_MAX or (count < most and len(power) > _ALTERNATIVES_MAX):
            return None
    return found


def _joined(parts: Sequence[Expression]) -> list[tuple[Atom, ...]] | None:
    found = list[tuple[Atom, ...]]([()])
    for part in parts:
        several = _alternatives(part)
        if several is None or len(found) * len(several) > _ALTERNATIVES_MAX:
            return None
        found = [(*one, *other) for one in found for other in several]
        if any(len(each) > _LENGTH_MAX for each in found):
            return None
    return found
