"""What all sessions of one gateway share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from catalog.gateways import Gateways
from catalog.postgres.pool import log_fault
from catalog.store import Store
from gateway.backend.dsn import Address
from gateway.node.shadow_turns import ShadowTurns
from gateway.node.sidecar_building import Indexing
from planner.plans.placement import Engine
from planner.tree.builtins import Builtins
from storage.spark.engine import SparkEngine

_LOG: Final = logging.getLogger("sluice.sessions")
# Concurrent logins that ask the catalog for roles: they use connections that commits need too.
_LOGIN_LOOKUPS_MAX: Final = 2


class Cancellable(Protocol):
    """A session, as other parts of the gateway see it."""

    async def cancel(self) -> None:
        """Stop its running statement."""

    async def schema_changed(self) -> None:
        """A schema has changed: stop work whose transaction is doomed."""

    def catalog_lost(self) -> None:
        """The catalog does not answer: stop work that waits for it."""


@dataclass(slots=True)
class GatewayContext:
    """The catalog, the engine, and the sessions by process number and secret key, as their clients know them.

    `database` is the one that holds the lake. `mock_nonce` makes the salt for missing roles. `engine_default` is the
    default of `sluice.engine`.
    """

    store: Store
    engine: SparkEngine
    builtins: Builtins
    mock_nonce: str
    address: Address
    database: str
    data_path: str
    gateways: Gateways
    engine_default: Engine
    other_databases: frozenset[str] = frozenset()  # served too (gateway/server/other_database.py)
    sessions: dict[tuple[int, bytes], Cancellable] = field(default_factory=dict)
    stopping: bool = False  # sessions end when no statement runs
    indexing: Indexing = field(init=False)
    new_files: int = 0  # committed here since the last maintenance
    shadow_turns: ShadowTurns = field(default_factory=ShadowTurns)
    login_lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGIN_LOOKUPS_MAX))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.indexing = Indexing(self)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def schema_changed(self) -> None:
        """Tell each session that a schema has changed."""
        self.indexing.wake()
        for session in list(self.sessions.values()):
            self.later(session.schema_changed())

    def catalog_lost(self) -> None:
        """The catalog does not answer: stop work that waits for it, or that reads by its answers."""
        for session in list(self.sessions.values()):
            session.catalog_lost()
        self.later(self.store.renew())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log_fault(_LOG, "something that nobody waits for has failed", fault)
