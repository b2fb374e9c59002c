"""What every session of one gateway shares."""

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
# Those who want to log in ask the catalog for their roles, by connections that commits need too: so many at a time.
_LOGIN_LOOKUPS_MAX: Final = 2


class Cancellable(Protocol):
    """A session, as far as others reach it."""

    async def cancel(self) -> None:
        """Stop what it runs."""

    async def schema_changed(self) -> None:
        """Somebody has changed a schema: end what runs in vain."""

    def catalog_lost(self) -> None:
        """The catalog is not heard any more: end what waits for it."""


@dataclass(slots=True)
class GatewayContext:
    """The catalog, the engine, and the sessions by the process number and the key that their clients know.

    `database` is the one that holds the lake. `mock_nonce` makes up the salt of roles that there are not.
    `engine_default` is what `sluice.engine` is where nobody has set it.
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
    other_databases: frozenset[str] = frozenset()  # that are served besides (gateway/server/other_database.py)
    sessions: dict[tuple[int, bytes], Cancellable] = field(default_factory=dict)
    stopping: bool = False  # sessions end as soon as they run nothing
    indexing: Indexing = field(init=False)
    new_files: int = 0  # that were committed here since maintenance has last looked
    shadow_turns: ShadowTurns = field(default_factory=ShadowTurns)
    login_lookups: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGIN_LOOKUPS_MAX))
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.indexing = Indexing(self)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what nobody waits for."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def schema_changed(self) -> None:
        """Somebody has changed a schema: each session is told."""
        self.indexing.wake()
        for session in list(self.sessions.values()):
            self.later(session.schema_changed())

    def catalog_lost(self) -> None:
        """The catalog is not heard any more: what waits for it, or reads by what it said, is ended."""
        for session in list(self.sessions.values()):
            session.catalog_lost()
        self.later(self.store.renew())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log_fault(_LOG, "something that nobody waits for has failed", fault)
