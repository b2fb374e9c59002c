"""PostgreSQL's lexical structure: as much of it as it takes to find where statements and clauses begin.

The meaning of a statement always comes from PostgreSQL's own parser. This serves to cut a query string into the
statements that it holds, and to find the text of a statement inside another (EXPLAIN …, COPY (…) TO).
Sources: PostgreSQL documentation, "Lexical Structure"; scan.l for what the documentation leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    """What a token is. WORD is a key word or an unquoted identifier, NAME a quoted one."""

    WORD = "word"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    PARAMETER = "parameter"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is folded to lower case for a WORD and unquoted for a NAME; `start` and `end` delimit it in the source.

    `unterminated` is true for a string, name or comment that the text ends in: PostgreSQL will refuse it.
    """

    kind: Kind
    text: str
    start: int
    end: int
    depth: int
    unterminated: bool = False


_SPACE: Final = re.compile(r"(?:\s|--[^\n\r]*)+")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_WORD: Final = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*")
_NUMBER: Final = re.compile(
    r"0[xX][0-9A-Fa-f_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?"
)
_PARAMETER: Final = re.compile(r"\$\d+")
_DOLLAR_QUOTE: Final = re.compile(r"\$(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?\$")
_PLAIN_STRING: Final = re.compile(r"'(?:[^']|'')*'")
_ESCAPE_STRING: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_QUOTED_NAME: Final = re.compile(r'"(?:[^"]|"")*"')
_STRING_PREFIXES: Final = frozenset({"e", "b", "x", "n"})


def tokens(text: str, *, standard_strings: bool = True) -> Iterator[Token]:
    """The tokens of `text` without white space and comments. Never fails; the end of an open string is the text's.

    `standard_strings` is the session's standard_conforming_strings.
    """
    place, size, depth = 0, len(text), 0
    while place < size:
        found = _SPACE.match(text, place)
        if found:
            place = found.end()
            continue
        if text.startswith("/*", place):
            place = _comment_end(text, place)
            continue
        kind, value, end, open_ended = _token(text, place, standard_strings)
        if value == ")" and kind is Kind.SYMBOL:
            depth = max(0, depth - 1)
        yield Token(kind, value, place, end, depth, open_ended)
        if value == "(" and kind is Kind.SYMBOL:
            depth += 1
        place = end


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def _token(text: str, place: int, standard_strings: bool) -> tuple[Kind, str, int, bool]:
    character = text[place]
    if character == "'":
        return _string(text, place, _PLAIN_STRING if standard_strings else _ESCAPE_STRING)
    if character == '"':
        return _name(text, place)
    if character == "$":
        found = _PARAMETER.match(text, place)
        if found:
            return Kind.PARAMETER, found.group(), found.end(), False
        found = _DOLLAR_QUOTE.match(text, place)
        if found:
            close = text.find(found.group(), found.end())
            end = len(text) if close < 0 else close + len(found.group())
            return Kind.STRING, text[place:end], end, close < 0
    found = _WORD.match(text, place)
    if found:
        word = found.group().lower()
        after = text[found.end() : found.end() + 2]
        if word in _STRING_PREFIXES and after[:1] == "'":
            pattern = _ESCAPE_STRING if word == "e" or not standard_strings else _PLAIN_STRING
            kind, _, end, open_ended = _string(text, found.end(), pattern)
            return kind, text[place:end], end, open_ended
        if word == "u" and after == "&'":
            kind, _, end, open_ended = _string(text, found.end() + 1, _PLAIN_STRING)
            return kind, text[place:end], end, open_ended
        if word == "u" and after == '&"':
            return _name(text, found.end() + 1)
        return Kind.WORD, word, found.end(), False
    found = _NUMBER.match(text, place)
    if found:
        return Kind.NUMBER, found.group(), found.end(), False
    return Kind.SYMBOL, character, place + 1, False


def _string(text: str, place: int, pattern: re.Pattern[str]) -> tuple[Kind, str, int, bool]:
    found = pattern.match(text, place)
    end = found.end() if found else len(text)
    return Kind.STRING, text[place:end], end, found is None


def _name(text: str, place: int) -> tuple[Kind, str, int, bool]:
    found = _QUOTED_NAME.match(text, place)
    end = found.end() if found else len(text)
    return Kind.NAME, text[place + 1 : end - 1].replace('""', '"'), end, found is None


def _comment_end(text: str, place: int) -> int:
    """Comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, place):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
