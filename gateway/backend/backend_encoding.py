"""The gateway's own statements are in UTF-8, on a backend that takes and gives the client's encoding.

The setting is switched around them, with the effect of SET LOCAL, so that an error takes it back by itself. Where a
transaction or a savepoint begins or ends it is the client's: so what that takes back, or keeps, is right too, and the
backend never reports another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.client.encoding import client_encoding, converts

TO_UTF8: Final = "SET LOCAL client_encoding = 'UTF8'"
# What must find the client's encoding, and leave it.
_BOUNDARIES: Final = frozenset({"BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK"})
_COMMIT: Final = "COMMIT"
_ROLLBACK: Final = "ROLLBACK"


def back(parameters: Mapping[str, str]) -> str:
    """To the client's encoding."""
    return f"SET LOCAL client_encoding = '{client_encoding(parameters)}'"


def switched(statements: Sequence[str], parameters: Mapping[str, str], status: bytes) -> list[str | int]:
    """The statements by their numbers, with what switches among them; `status` is the backend's before."""
    if not converts(parameters):
        return list(range(len(statements)))
    found: list[str | int] = []
    failed, switched_on = status == b"E", False
    for number, sql in enumerate(statements):
        word = sql.split(None, 1)[0].upper()
        wanted = word not in _BOUNDARIES
        if not failed and wanted is not switched_on:
            found.append(TO_UTF8 if wanted else back(parameters))
        found.append(number)
        # The end of a transaction takes it back, after all that happens at COMMIT.
        switched_on = wanted and not failed and word != _COMMIT
        failed = failed and word != _ROLLBACK
    if switched_on:
        found.append(back(parameters))
    return found
