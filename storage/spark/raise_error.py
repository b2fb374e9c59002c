"""Errors that Sluice's SQL raises, encoded as text that Spark carries unchanged. Pure.

Two spellings, for `raise_error('…')`:

    SLUICE:<sqlstate>:<message>     the SQL builds the message from values
    SLUICE:<fields as JSON>         more than the message is known (`raise_error_text`)

`raised_error` restores the error from any text that Spark wraps around it.
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
    """Return the text for Spark's `raise_error`, to be put into SQL as a string literal."""
    return _MARK + json.dumps(error.fields, ensure_ascii=False)


def raised_error(message: str) -> SluiceError | None:
    """Return the error whose text is anywhere in the message of an exception; None if there is none."""
    _, mark, rest = message.partition(_MARK)
    if not mark:
        return None
    if rest.startswith("{"):
        fields: dict[str, str] = json.JSONDecoder().raw_decode(rest)[0]
        optional = {name: fields[code] for code, name in _FIELD_NAMES.items() if code in fields}
        return SluiceError(fields["C"], fields["M"], severity=fields["S"], **optional)  # type: ignore[arg-type]
    plain = _PLAIN.match(rest)
    return None if plain is None else SluiceError(plain[1], _SPARK_TAIL.sub("", plain[2]))
