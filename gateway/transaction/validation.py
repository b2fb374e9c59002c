"""What a transaction has looked at that must still hold when it commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Validation:
    """A look at what a constraint demands, which holds as long as nobody commits to the table that was looked at.

    `constraint` is its OID, `snapshot` the last that had changed the table then (below 0: there was no look yet);
    `again` looks anew, and raises what it finds: with `whole`, at all that the transaction has written. `before`
    is done at COMMIT too, before the tables are locked, for it may wait for others. A constraint that the transaction
    has made, and that is deferred, has other OIDs by now: it goes by its `name`.
    """

    constraint: int
    snapshot: int
    again: Callable[[], Awaitable[None]]
    whole: bool = False
    before: Callable[[], Awaitable[None]] | None = None
    name: str | None = None
