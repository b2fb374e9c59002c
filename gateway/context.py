"""What every session of one gateway shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from catalog.store import Store
from gateway.backend import Address
from gateway.live_cursors import LiveCursors
from planner.builtins import Builtins
from storage.engine import SparkEngine


class Cancellable(Protocol):
    """A session, as far as others reach it."""

    async def cancel(self) -> None:
        """Stop what it runs."""


@dataclass(slots=True)
class GatewayContext:
    """The catalog, the engine, and the sessions by the process number that their clients know.

    `token` lets the gateway stage changes on its clients' backends; `database` is the one that holds the lake.
    """

    store: Store
    engine: SparkEngine
    builtins: Builtins
    token: str
    address: Address
    database: str
    data_path: str
    sessions: dict[int, Cancellable] = field(default_factory=dict)
    live_cursors: LiveCursors = field(default_factory=LiveCursors)
