"""String functions for texts of any length, a piece at a time, so that other threads get the interpreter in between.

One call into C code holds the interpreter until it ends, and a text may have hundreds of megabytes.
"""

from __future__ import annotations

import re
from typing import Final

# Characters that take a fraction of a millisecond: of a search for a few characters, and of a regular expression.
_FIND: Final = 1 << 20
_MATCH: Final = 1 << 16


def find(text: str, part: str, start: int = 0, end: int | None = None) -> int:
    """Do as str.find."""
    end = len(text) if end is None else min(end, len(text))
    more = len(part) - 1
    while start + more < end:
        found = text.find(part, start, min(start + _FIND + more, end))
        if found >= 0:
            return found
        start += _FIND
    return -1


def count(text: str, character: str) -> int:
    """Do as str.count, for one character."""
    return sum(text.count(character, start, start + _FIND) for start in range(0, len(text), _FIND))


def holds_word(text: str, word: str) -> bool:
    """Whether a word in lower case is in the text, in any case."""
    more = len(word)
    return any(word in text[start : start + _FIND + more].lower() for start in range(0, len(text), _FIND))


def run_end(characters: re.Pattern[str], text: str, start: int) -> int:
    """Return where a run of characters that begins there ends; `characters` is any number of them."""
    while True:
        found = characters.match(text, start, start + _MATCH)
        assert found is not None
        if found.end() < start + _MATCH:
            return found.end()
        start = found.end()


def search(edge: re.Pattern[str], longest: int, text: str, start: int) -> re.Match[str] | None:
    """Do as `edge.search`; a match has so many characters at most."""
    while start < len(text):
        found = edge.search(text, start, start + _MATCH + longest - 1)
        if found is not None:
            return found
        start += _MATCH
    return None


def piece_end(start: int) -> int:
    """Return where a match that begins there is to end at the latest."""
    return start + _MATCH
