"""Long tokens of a tree, such as the body of a function: read a piece at a time, in linear time.

One match of the reader's own expression (`planner.tree.nodes`) takes shorter ones; the two agree on where a token ends.
"""

from __future__ import annotations

import re
from typing import Final

from planner.tree.long_text import piece_end

# The reader looks at so much of a token; if a token or an escape ends there, it cannot tell the end.
LENGTH_MAX: Final = 1 << 16
_ENDS_STRING: Final = (" ", "\n", ")", "}")
# Characters, escapes of one, quotes that end nothing; possessively, so that no backtracking state is kept for each.
_IN_STRING: Final = re.compile(r'[^"\\]*+(?:(?:\\.|"(?![ \n)}]|$))[^"\\]*+){0,1000}', re.DOTALL)
_IN_WORD: Final = re.compile(r"[^\s(){}\\]*+(?:\\.[^\s(){}\\]*+){0,1000}", re.DOTALL)
# A placeholder for a literal backslash: PostgreSQL's texts have no NUL.
_MEANT: Final = "\0"


def read_long(text: str, start: int) -> tuple[str, int, bool]:
    """Return the string or word that begins there, escapes undone, where it ends, and whether it is a string."""
    if text[start] == '"' and (found := _string(text, start)) is not None:
        return *found, True
    return *_word(text, start), False


def _string(text: str, start: int) -> tuple[str, int] | None:
    """Read a string. A quote ends it if a separator follows, or nothing. None if it has no end."""
    parts: list[str] = []
    place, size = start + 1, len(text)
    while place < size:
        end = _piece_end(_IN_STRING, text, place, parts)
        if end < size and text[end] == '"':
            if end + 1 == size or text[end + 1] in _ENDS_STRING:
                return "".join(parts), end + 1
            parts.append('"')
            end += 1
        elif end == place:
            return None
        place = end
    return None


def _word(text: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    place = start
    while (end := _piece_end(_IN_WORD, text, place, parts)) > place:
        place = end
    return "".join(parts), place


def _piece_end(piece: re.Pattern[str], text: str, place: int, parts: list[str]) -> int:
    """Read on from there; return the end of what was read, which cuts no escape."""
    found = piece.match(text, place, piece_end(place))
    assert found is not None
    end = found.end()
    if text.startswith("\\", end) and end + 1 < len(text):
        end += 2  # the piece's end is between the two, or there were many
    parts.append(unescaped(text[place:end]))
    return end


def unescaped(text: str) -> str:
    """Return the text without the backslashes that escape what follows them."""
    if "\\" not in text:
        return text
    return text.replace("\\\\", _MEANT).replace("\\", "").replace(_MEANT, "\\")
