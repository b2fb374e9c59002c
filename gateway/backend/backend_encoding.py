"""Switches a backend from the client's encoding to UTF-8 for the gateway's own statements.

The setting has the effect of SET LOCAL, so that an error restores it. Wherever a transaction or savepoint begins or
ends, the client's encoding is set. So any restored or kept value is right, and the backend never reports another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gateway.client.encoding import client_encoding, converts

TO_UTF8: Final = "SET LOCAL client_encoding = 'UTF8'"
# First words of statements that must begin and end in the client's encoding.
_BOUNDARIES: Final = frozenset({"BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK"})
_COMMIT: Final = "COMMIT"
_ROLLBACK: Final = "ROLLBACK"


def back(parameters: Mapping[str, str]) -> str:
    """The statement that sets the client's encoding."""
    return f"SET LOCAL client_encoding = '{client_encoding(parameters)}'"


def switched(statements: Sequence[str], parameters: Mapping[str, str], status: bytes) -> list[str | int]:
    """The statements by number, with the switching statements among them; `status` is the backend's before them."""
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
        # The end of a transaction restores it, after everything that runs at COMMIT.
        switched_on = wanted and not failed and word != _COMMIT
        failed = failed and word != _ROLLBACK
    if switched_on:
        found.append(back(parameters))
    return found
