"""Errors that our own SQL raises on purpose, as text that Spark carries and nothing alters. Pure.

Two spellings, for `raise_error('…')`:

    SLUICE:<sqlstate>:<message>     where the SQL makes up the message from values
    SLUICE:<fields as JSON>         where more than the message is known (`raise_error_text`)

Whatever Spark wraps around the text on its way back, `raised_error` makes the same error of it.
"""

from __future__ import annotations

import json
import re
from typing import Final

from catalog.errors import SluiceError

_MARK: Final = "SLUICE:"
_FIELD_NAMES: Final = {
    "D": "detail", "H": "hint", "s": "schema", "t": "table", "c": "column", "d": "datatype", "n": "constraint",
}  # fmt: skip
_PLAIN: Final = re.compile(r"([0-9A-Z]{5}):(.*)", re.DOTALL)
# What Spark puts after the text of `raise_error` in an exception's message.
_SPARK_TAIL: Final = re.compile(r" SQLSTATE: P0001\b.*", re.DOTALL)


def raise_error_text(error: SluiceError) -> str:
    """The text for Spark's `raise_error`, to be put into SQL as a string literal."""
    return _MARK + json.dumps(error.fields, ensure_ascii=False)


def raised_error(message: str) -> SluiceError | None:
    """The error whose text is somewhere in the message of an exception; None where there is none."""
    _, mark, rest = message.partition(_MARK)
    if not mark:
        return None
    if rest.startswith("{"):
        fields: dict[str, str] = json.JSONDecoder().raw_decode(rest)[0]
        optional = {name: fields[code] for code, name in _FIELD_NAMES.items() if code in fields}
        return SluiceError(fields["C"], fields["M"], severity=fields["S"], **optional)  # type: ignore[arg-type]
    plain = _PLAIN.match(rest)
    return None if plain is None else SluiceError(plain[1], _SPARK_TAIL.sub("", plain[2]))
