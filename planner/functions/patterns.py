"""LIKE patterns and regular expressions: PostgreSQL's, as Spark (Java) means the same by them.

Of regular expressions only those are taken whose meaning is beyond doubt: literals, `.`, `^`, `$`, bracket
expressions of plain characters and ranges, groups, alternation and quantifiers. As a mere test for a match, such a
pattern means the same to a POSIX and to a backtracking engine; where the match itself counts, a single atom is taken.
"""

from __future__ import annotations

import re
from typing import Final

from catalog.errors import unsupported


def like_pattern(pattern: str) -> str | None:
    """The pattern with escapes only where Spark allows them; None where it ends in a lone escape."""
    result = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            following = next(characters, None)
            if following is None:
                return None
            result.append("\\" + following if following in "\\%_" else following)
        else:
            result.append(character)
    return "".join(result)


_BRACKET: Final = r"\[\^?(?:[A-Za-z0-9 _,.;:/@#%&!\"'<>=~`]|[A-Za-z0-9]-[A-Za-z0-9])+(?:-)?\]"
_ATOM: Final = rf"(?:[A-Za-z0-9 _,;:/@#%&!\"'<>=~`-]|\\[.()*+?|{{}}\[\]^$/\\-]|\.|{_BRACKET})"
_QUANTIFIER: Final = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})"
_TOKEN: Final = re.compile(rf"({_ATOM})({_QUANTIFIER})?|([()|^$])({_QUANTIFIER})?")
_SINGLE: Final = re.compile(rf"{_ATOM}\+?")


def search_pattern(pattern: str, insensitive: bool) -> str:
    """A pattern that finds a match where PostgreSQL's `~` (`~*`) does; 0A000 for any that could differ."""
    if pattern.startswith("***") or (insensitive and not pattern.isascii()):
        raise _refused(pattern)
    result = []
    depth = 0
    position = 0
    previous = "("
    while position < len(pattern):
        found = _TOKEN.match(pattern, position)
        if found is None:
            raise _refused(pattern)
        position = found.end()
        atom, quantifier, mark, mark_quantifier = found.groups()
        if atom is not None:
            result.append(atom + (quantifier or ""))
            previous = "a"
            continue
        depth += {"(": 1, ")": -1}.get(mark, 0)
        # A quantified anchor, an empty group or branch: what they mean differs, or is an error.
        if (
            depth < 0
            or (mark_quantifier and mark != ")")
            or (mark in ")|" and previous in "(|")
            or (position == len(pattern) and mark in "|(")
        ):
            raise _refused(pattern)
        result.append({"(": "(?:", "^": r"\A", "$": r"\z"}.get(mark, mark) + (mark_quantifier or ""))
        previous = mark
    if depth:
        raise _refused(pattern)
    return ("(?si)" if insensitive else "(?s)") + "".join(result)


def replacement_pattern(pattern: str) -> str:
    """A pattern of one atom, perhaps with +, whose matches are the same in both."""
    if not _SINGLE.fullmatch(pattern):
        raise _refused(pattern)
    return "(?s)" + pattern


def _refused(pattern: str) -> Exception:
    return unsupported(f"the regular expression {pattern!r}")
