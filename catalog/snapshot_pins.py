"""Snapshot pins of this gateway, which keep expiry from files that its sessions read (catalog/sql/maintenance.sql).

Contract: from `begin` to `end`, a reading that looks for the newest snapshot after `begin` is safe: no file that it
finds is removed. A reading costs no request to the catalog. It counts as one of the newest snapshot known when it
began; the least of these is reported to the catalog now and then, and whenever expiry asks. A snapshot that a session
has chosen is older; `pin` keeps it until `unpin`.

The gateway counts as a reader while the backend of its own connection lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Final

import asyncpg

from catalog.background import end
from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.notifications import About, Paced, listen
from catalog.postgres.pool import FAULTS, reaching

_LOG: Final = logging.getLogger("sluice.readers")
_AGAIN_SECONDS: Final = 1.0
_REFRESH_SECONDS: Final = 30.0
_NEWEST: Final = "SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot"
_TELL: Final = "UPDATE pg_sluice.reader SET floor = $2, refreshed = clock_timestamp() WHERE reader_id = $1"
_REGISTER: Final = "SELECT pg_sluice.register_reader($1)"
_PIN: Final = "SELECT pg_sluice.pin($1, $2)"
_UNPIN: Final = "DELETE FROM pg_sluice.pinned WHERE reader_id = $1 AND snapshot_id = $2"
_LEAVE: Final = "DELETE FROM pg_sluice.reader WHERE reader_id = $1"


@dataclass(eq=False, slots=True)
class Reading:
    """A reading of the lake: it reads no snapshot before this one."""

    snapshot: int


class SnapshotPins:
    """The pins: `start` registers this gateway; `close` ends that."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._readings: set[Reading] = set()
        self._pins: Counter[int] = Counter()
        self._newest = 0
        self._connection: asyncpg.Connection | None = None
        self._number = 0
        self._lost = asyncio.Event()
        self._asked = asyncio.Event()
        self._words = Paced(self._asked.set)
        self._telling = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Register, and keep the catalog informed from then on."""
        await self._register()
        self._keeping = asyncio.create_task(self._keep())

    def begin(self) -> Reading:
        """Begin to read the newest snapshot."""
        reading = Reading(self._newest)
        self._readings.add(reading)
        return reading

    def end(self, reading: Reading) -> None:
        """End a reading; ending it twice is allowed."""
        self._readings.discard(reading)

    async def pin(self, snapshot: int) -> None:
        """Keep a snapshot; 22023 if it is gone."""
        async with self._telling:
            with reaching():
                if not self._pins[snapshot] and not await self._held().fetchval(_PIN, self._number, snapshot):
                    raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"snapshot {snapshot} is not kept any more")
            self._pins[snapshot] += 1

    async def unpin(self, snapshot: int) -> None:
        """Release one pin of a snapshot."""
        async with self._telling:
            self._pins[snapshot] -= 1
            if self._pins[snapshot] <= 0:
                del self._pins[snapshot]
                try:
                    await self._held().execute(_UNPIN, self._number, snapshot)
                except FAULTS:
                    _LOG.debug("the catalog is away, and with it what was pinned")

    async def tell(self) -> None:
        """Report this gateway's oldest snapshot to the catalog."""
        async with self._telling:
            with reaching():
                await self._tell(self._held())

    async def _tell(self, connection: asyncpg.Connection) -> None:
        newest = await connection.fetchval(_NEWEST)
        floor = min([newest, *(reading.snapshot for reading in self._readings)])
        self._newest = newest  # in one go with the line above: a later reading is not below the floor
        await connection.execute(_TELL, self._number, floor)

    def _held(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the catalog is not reachable")
        return self._connection

    async def _register(self) -> None:
        self._lost.clear()
        connection = await connect(self._dsn)
        connection.add_termination_listener(lambda _: self._lost.set())
        await listen(connection, self._words, About.READERS)
        async with self._telling:
            first = min((reading.snapshot for reading in self._readings), default=None)
            self._number = await connection.fetchval(_REGISTER, first)
            self._connection = connection
            for snapshot in self._pins:
                if not await connection.fetchval(_PIN, self._number, snapshot):
                    _LOG.error("snapshot %s was lost while the catalog was away", snapshot)
            await self._tell(connection)

    async def _keep(self) -> None:
        while True:
            try:
                if self._lost.is_set():
                    await self._register()
                self._asked.clear()
                await self.tell()
                await self._wait()
            except FAULTS:
                await asyncio.sleep(_AGAIN_SECONDS)  # the catalog is restarting

    async def _wait(self) -> None:
        waited = [asyncio.ensure_future(event.wait()) for event in (self._asked, self._lost)]
        try:
            await asyncio.wait(waited, timeout=_REFRESH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waited:
                each.cancel()

    async def close(self) -> None:
        """End the registration. This gateway reads nothing afterwards."""
        keeping, self._keeping = self._keeping, None
        await end(keeping)
        self._words.close()
        if self._connection is not None:
            try:
                await self._connection.execute(_LEAVE, self._number)
                await self._connection.close()
            except FAULTS:  # expiry finds the backend gone
                self._connection.terminate()
