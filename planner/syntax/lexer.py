"""PostgreSQL's lexical structure, as far as needed to find where statements and clauses begin.

The meaning of a statement always comes from PostgreSQL's own parser. The lexer splits a query string into its
statements, and finds the text of a statement inside another (EXPLAIN …, COPY (…) TO). Sources: PostgreSQL
documentation, "Lexical Structure"; scan.l for what the documentation leaves open.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from planner.tree.long_text import find, piece_end, run_end, search


class Kind(Enum):
    """The kind of a token. WORD is a key word or an unquoted identifier, NAME a quoted one."""

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


_SPACE: Final = re.compile(r"\s*")
_LINE: Final = re.compile(r"[^\n\r]*")
_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_IDENTIFIER_START: Final = re.compile(r"[A-Za-z_\u0080-\U0010ffff]")
_IDENTIFIER_REST: Final = re.compile(r"[A-Za-z0-9_$\u0080-\U0010ffff]*")
_TAG_REST: Final = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]*")
# The rest of a longer number or parameter is another token.
_NUMBER: Final = re.compile(
    r"0[xX][0-9A-Fa-f_]{1,65535}|0[oO][0-7_]{1,65535}|0[bB][01_]{1,65535}"
    r"|(?:\d[\d_]{0,65535}(?:\.(?!\.)[\d_]{0,65535})?|\.\d[\d_]{0,65535})(?:[eE][+-]?\d[\d_]{0,65535})?"
)
_PARAMETER: Final = re.compile(r"\$\d{1,65535}")
_ESCAPED: Final = re.compile(r"[^'\\]*(?:(?:''|\\.)[^'\\]*){0,1000}", re.DOTALL)
# The part of a name that matters: PostgreSQL cuts it off after 63 bytes, each of which may take eight characters.
_NAME_MAX: Final = 1024
_STRING_PREFIXES: Final = frozenset({"e", "b", "x", "n"})


def tokens(text: str, *, standard_strings: bool = True) -> Iterator[Token]:
    """Yield the tokens of `text` without white space and comments. Never fails; an open string ends with the text.

    `standard_strings` is the session's standard_conforming_strings.
    """
    place, size, depth = 0, len(text), 0
    while place < size:
        if text[place].isspace():
            place = run_end(_SPACE, text, place)
            continue
        if text.startswith("--", place):
            place = run_end(_LINE, text, place)
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


def has_parameters(text: str) -> bool:
    """Whether it has a parameter such as `$1`."""
    return "$" in text and any(token.kind is Kind.PARAMETER for token in tokens(text))


def quoted(name: str) -> str:
    """Return a name as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def unescaped(name: str, escape: str) -> str:
    """Return the meaning of a quoted name with `U&` before it, where PostgreSQL takes it."""
    mark = re.escape(escape)
    code = re.compile(rf"{mark}(?:({mark})|([0-9A-Fa-f]{{4}})|\+([0-9A-Fa-f]{{6}}))")
    return code.sub(lambda found: found[1] or _character(int(found[2] or found[3], 16)), name)


def _character(code: int) -> str:
    return chr(code) if code <= sys.maxunicode else ""


def _token(text: str, place: int, standard_strings: bool) -> tuple[Kind, str, int, bool]:
    character = text[place]
    if character == "'":
        return _plain_string(text, place) if standard_strings else _escape_string(text, place)
    if character == '"':
        return _name(text, place)
    if character == "$":
        found = _PARAMETER.match(text, place)
        if found:
            return Kind.PARAMETER, found.group(), found.end(), False
        start = _after_tag(text, place)
        if start is not None:
            tag = text[place:start]
            close = find(text, tag, start)
            end = len(text) if close < 0 else close + len(tag)
            return Kind.STRING, text[place:end], end, close < 0
    if _IDENTIFIER_START.match(text, place):
        return _word(text, place, standard_strings)
    found = _NUMBER.match(text, place)
    if found:
        return Kind.NUMBER, found.group(), found.end(), False
    return Kind.SYMBOL, character, place + 1, False


def _after_tag(text: str, place: int) -> int | None:
    """Return where the content of dollar quotes begins; None if none does."""
    end = place + 1
    if _IDENTIFIER_START.match(text, end):
        end = run_end(_TAG_REST, text, end)
    return end + 1 if text.startswith("$", end) else None


def _word(text: str, place: int, standard_strings: bool) -> tuple[Kind, str, int, bool]:
    """Return a key word or a name, or a string with the letters before its quote."""
    end = run_end(_IDENTIFIER_REST, text, place)
    word = text[place : min(end, place + _NAME_MAX)].lower()
    after = text[end : end + 2]
    if word in _STRING_PREFIXES and after[:1] == "'":
        read = _escape_string if word == "e" or not standard_strings else _plain_string
        kind, _, end, open_ended = read(text, end)
        return kind, text[place:end], end, open_ended
    if word == "u" and after == "&'":
        kind, _, end, open_ended = _plain_string(text, end + 1)
        return kind, text[place:end], end, open_ended
    if word == "u" and after == '&"':
        return _name(text, end + 1)
    return Kind.WORD, word, end, False


def _plain_string(text: str, place: int) -> tuple[Kind, str, int, bool]:
    end, closed = _quoted_end(text, place)
    return Kind.STRING, text[place:end], end, not closed


def _quoted_end(text: str, place: int) -> tuple[int, bool]:
    """Return where the quoted text that begins there ends (a quote in it is doubled), and whether that is before the
    text's end."""
    quote, end = text[place], place + 1
    while (end := find(text, quote, end) + 1) and text.startswith(quote, end):
        end += 1
    return end or len(text), end > 0


def _escape_string(text: str, place: int) -> tuple[Kind, str, int, bool]:
    size, end, closed = len(text), place + 1, False
    while end < size and not closed:
        found = _ESCAPED.match(text, end, piece_end(end))
        assert found is not None
        end = found.end()
        # There is a quote or an escape; or it is a piece's end, and anything.
        if text.startswith("\\", end) or text.startswith("''", end):
            end += 2
        elif text.startswith("'", end):
            end, closed = end + 1, True
    end = min(end, size)
    return Kind.STRING, text[place:end], end, not closed


def _name(text: str, place: int) -> tuple[Kind, str, int, bool]:
    end, closed = _quoted_end(text, place)
    return Kind.NAME, text[place + 1 : min(end - 1, place + 1 + _NAME_MAX)].replace('""', '"'), end, not closed


def _comment_end(text: str, place: int) -> int:
    """Return where a comment ends; comments nest."""
    depth = 0
    while (edge := search(_COMMENT_EDGE, 2, text, place)) is not None:
        depth += 1 if edge.group() == "/*" else -1
        place = edge.end()
        if depth == 0:
            return place
    return len(text)
