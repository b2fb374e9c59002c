"""A validation: a check of a constraint that must still hold at COMMIT."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Validation:
    """A check of a constraint, valid until another transaction commits to the checked table.

    `constraint` is its OID. `snapshot` is the last snapshot that had changed the table then; below 0, no check was
    made yet. `again` checks anew and raises errors; with `whole`, all rows that the transaction has written. `before`
    runs at COMMIT before the tables are locked, because it may wait for other transactions. A deferred constraint that
    the transaction itself has made has a new OID by now; `name` identifies it.
    """

    constraint: int
    snapshot: int
    again: Callable[[], Awaitable[None]]
    whole: bool = False
    before: Callable[[], Awaitable[None]] | None = None
    name: str | None = None
