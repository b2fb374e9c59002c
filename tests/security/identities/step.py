"""A message of one role."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What one role sends, statement by statement, to the gateway of this `place`.

    `kind` says what it is of. `rows` are what COPY FROM is sent; with `values` a statement goes by the extended
    protocol.
    """

    role: str
    kind: str
    statements: tuple[str, ...]
    place: int = 0
    rows: bytes = b""
    values: tuple[int, ...] = ()
