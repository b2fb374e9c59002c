"""What an INSERT of constants has in common with others that insert other constants: its text without them.

PostgreSQL analyses all texts of a shape alike: the same names, and constants of the same types in the same places. So
only texts have one whose VALUES are constants and DEFAULT, without functions, operators or subqueries.
"""

from __future__ import annotations

import re
from typing import Final

# A longer text, or one of more constants, is not worth it.
_TEXT_MAX: Final = 8_192
_CONSTANTS_MAX: Final = 256
_NAME: Final = r"(?:[A-Za-z_][A-Za-z0-9_]*+|\"(?:[^\"]|\"\")++\")"
_NAMES: Final = rf"{_NAME}(?:\s*+,\s*+{_NAME})*+"
_HEAD: Final = re.compile(
    rf"\s*+INSERT\s++INTO\s++{_NAME}(?:\.{_NAME})?+\s*+(?:\(\s*+{_NAMES}\s*+\)\s*+)?+VALUES\s*+(?=\()", re.IGNORECASE
)
# A constant: a string or NULL, which have no type of their own; an integer of type integer, or of bigint; a numeric.
# The type of an integer of ten digits depends on its value.
_CONSTANT: Final = re.compile(
    r"""(?P<unknown>'(?:[^']|'')*+'|NULL(?![\w$"']))
    |(?P<numeric>-?[0-9]{1,30}\.[0-9]{1,30}(?![\w.$]))
    |(?P<int4>-?[0-9]{1,9}(?![\w.$]))
    |(?P<int8>-?[0-9]{11,18}(?![\w.$]))
    |(?P<bool>(?:TRUE|FALSE)(?![\w$"']))
    |(?P<default>DEFAULT(?![\w$"']))""",
    re.IGNORECASE | re.VERBOSE,
)
_OPENS: Final = re.compile(r"\s*+\(\s*+")
# Behind a constant; behind a row.
_FOLLOWS: Final = re.compile(r"\s*+([,)])\s*+")
_NEXT: Final = re.compile(r"\s*+,\s*+(?=\()")
_ENDS: Final = re.compile(r"\s*+;?+\s*+\Z")


def insert_shape(text: str) -> tuple[str, ...] | None:
    """The shape of an INSERT's text; None if it has none. It holds with `standard_conforming_strings` alone."""
    if len(text) > _TEXT_MAX or (head := _HEAD.match(text)) is None:
        return None
    place, parts = head.end(), [head.group()]
    while (row := _row(text, place, parts)) is not None:
        place = row
        if (ends := _ENDS.match(text, place)) is not None:
            return (*parts, ends.group())
        if (follows := _NEXT.match(text, place)) is None or len(parts) > _CONSTANTS_MAX:
            return None
        parts.append(follows.group())
        place = follows.end()
    return None


def _row(text: str, place: int, parts: list[str]) -> int | None:
    """Add the shape of a row of constants; return its end."""
    follows = _OPENS.match(text, place)
    while follows is not None:
        parts.append(follows.group())
        if follows.group().strip() == ")":
            return follows.end()
        constant = _CONSTANT.match(text, follows.end())
        if constant is None or len(parts) > 2 * _CONSTANTS_MAX:
            return None
        parts.append(constant.lastgroup or "")
        follows = _FOLLOWS.match(text, constant.end())
    return None
