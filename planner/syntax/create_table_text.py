"""The text of CREATE TABLE: the same statement without its foreign keys.

Pure. The caller adds them again, and checks in the catalog that nothing is lost by that. Source: PostgreSQL
documentation, "CREATE TABLE".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planner.syntax.lexer import Kind, Token, tokens

# What may follow REFERENCES table (columns), longest first; names of columns after SET NULL and SET DEFAULT apart.
_ACTIONS: Final = (("no", "action"), ("restrict",), ("cascade",), ("set", "null"), ("set", "default"))
_ATTRIBUTES: Final = (
    *(("match", kind) for kind in ("full", "partial", "simple")),
    *(("on", event, *action) for event in ("delete", "update") for action in _ACTIONS),
    ("not", "deferrable"),
    ("deferrable",),
    ("initially", "deferred"),
    ("initially", "immediate"),
    ("not", "enforced"),
    ("enforced",),
)


def without_references(text: str) -> str | None:
    """Return a CREATE TABLE without its FOREIGN KEY and REFERENCES clauses; None if it has no list of elements."""
    items = [token for token in tokens(text) if not _is(token, ";")]
    opening = next((place for place, token in enumerate(items) if _is(token, "(")), None)
    if opening is None or any(token.kind is Kind.WORD and token.text == "of" for token in items[:opening]):
        return None
    closing = next(place for place in range(opening, len(items) + 1) if place == len(items) or _closes(items[place]))
    if closing == len(items):
        return None
    kept = [_kept(text, element) for element in _elements(items[opening + 1 : closing])]
    listed = ", ".join(each for each in kept if each)
    return f"{text[: items[opening].end]}{listed}{text[items[closing].start : items[-1].end]}"


def _is(token: Token, symbol: str) -> bool:
    return token.kind is Kind.SYMBOL and token.text == symbol


def _closes(token: Token) -> bool:
    return _is(token, ")") and token.depth == 0


def _elements(items: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the comma-separated elements of the list."""
    begin = 0
    for place, token in enumerate(items):
        if _is(token, ",") and token.depth == 1:
            yield items[begin:place]
            begin = place + 1
    yield items[begin:]


def _kept(text: str, element: Sequence[Token]) -> str:
    """Return an element without its reference to another table: of a FOREIGN KEY constraint, nothing."""
    words = _words(element)
    unnamed = words[2:] if words[:1] == ["constraint"] else words
    if not element or unnamed[:2] == ["foreign", "key"]:
        return ""
    parts, begin, place = [], element[0].start, 0
    while place < len(element):
        if words[place] == "references":
            first = place - 2 if words[place - 2] == "constraint" else place
            parts.append(text[begin : element[first].start])
            place = _end_of_reference(element, words, place + 1)
            begin = element[place].start if place < len(element) else element[-1].end
        else:
            place += 1
    return "".join([*parts, text[begin : element[-1].end]]).strip()


def _words(element: Sequence[Token]) -> list[str]:
    """Return the element's key words in its own parentheses, with a placeholder for each other token."""
    return [token.text if token.kind is Kind.WORD and token.depth == 1 else "" for token in element]


def _end_of_reference(element: Sequence[Token], words: Sequence[str], place: int) -> int:
    """Return where a clause ends whose table's name begins at `place`."""
    place += 1
    while place < len(element) and _is(element[place], "."):
        place += 2
    place = _after_parentheses(element, place)
    while True:
        found = next((each for each in _ATTRIBUTES if tuple(words[place : place + len(each)]) == each), None)
        if found is None:
            return place
        place += len(found)
        if found[-2:] in {("set", "null"), ("set", "default")}:
            place = _after_parentheses(element, place)


def _after_parentheses(element: Sequence[Token], place: int) -> int:
    if place < len(element) and _is(element[place], "("):
        while place < len(element) and not (_is(element[place], ")") and element[place].depth == 1):
            place += 1
        return place + 1
    return place
