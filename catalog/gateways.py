"""This gateway among those of the catalog: its number, its heartbeats, and the removal of dead gateways.

The catalog's side is catalog/sql/gateways.sql and synchronisation.sql. The decisions and their reasons are in
catalog/schema/synchronisation.py.

A gateway keeps its number while the backend of one connection lives. The same connection carries the heartbeats, and
one is sent at once after a notification (notifications.py). If the connection is lost, other gateways may declare this
one dead. It then takes another number, and files written under the old number are not published.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

from catalog.background import end
from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.notifications import About, Paced, listen
from catalog.postgres.pool import FAULTS
from catalog.schema.clock import HybridClock, duration, seconds
from catalog.schema.synchronisation import Replica, Settings, Update, Word, physical_microseconds

_LOG: Final = logging.getLogger("sluice.gateways")
_AGAIN_SECONDS: Final = 0.2
_CONNECT_SECONDS_MAX: Final = 5.0
_PUBLISHING_SECONDS: Final = 0.003
_HEARD_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 60.0
_SETTINGS: Final = (
    "SELECT name, value::float8 FROM pg_sluice.setting WHERE name IN ('delay', 'heartbeat', 'clock_skew')"
)
_REGISTER: Final = "SELECT pg_sluice.register_gateway($1, $2)"
_REPORT: Final = "SELECT pg_sluice.report($1, $2, $3, $4)"
_END_OWN: Final = "UPDATE pg_sluice.gateway SET ended = now(), granted = 0 WHERE gateway_id = $1 AND ended IS NULL"
_ENDED: Final = "SELECT gateway_id FROM pg_sluice.gateway WHERE ended IS NOT NULL"
_CLEANED: Final = "UPDATE pg_sluice.gateway SET cleaned = true WHERE NOT cleaned AND gateway_id = ANY ($1)"
# A task of the gateway on another machine may write for a while after the gateway's end.
_FORGET: Final = "DELETE FROM pg_sluice.gateway WHERE ended < now() - interval '1 day' AND gateway_id = ANY ($1)"
_FORGET_SESSIONS: Final = """
DELETE FROM pg_sluice.session s WHERE NOT EXISTS (
    SELECT FROM pg_stat_activity a WHERE a.pid = s.process_id AND a.backend_start = s.backend_start)
"""
# Every heartbeat writes these rows, more often than autovacuum runs.
_TIDY: Final = "VACUUM (SKIP_LOCKED) pg_sluice.clock, pg_sluice.gateway, pg_sluice.session, pg_sluice.schema_update"


class Gateways:
    """The registration of this gateway: `start` registers it, `close` ends that.

    `numbered` is called with each number that this gateway gets. `clean` is called with the numbers of dead gateways,
    whenever there are new ones; it removes their files. `lost` is called when the lease has run out: waits for the
    catalog are in vain then. `address` is where clients reach this gateway. `count` returns the number of its sessions,
    None before it accepts any.
    """

    def __init__(
        self,
        dsn: str,
        numbered: Callable[[int], None],
        clean: Callable[[frozenset[int]], Awaitable[None]],
        *,
        lost: Callable[[], None] = lambda: None,
        count: Callable[[], int | None] = lambda: 0,
        address: str = "",
    ) -> None:
        self._dsn = dsn
        self._numbered = numbered
        self._clean = clean
        self._on_lost = lost
        self._count = count
        self._address = address
        self.number: int | None = None
        self.settings = Settings()
        self._replica = self._new_replica()
        self._holder: asyncpg.Connection | None = None
        self._poked = asyncio.Event()
        self._words = Paced(self._poked.set)
        self._reported = asyncio.Condition()
        self._reports = 0
        self._unsettled: frozenset[int] = frozenset()
        self._given_up: set[int] = set()  # own earlier numbers, whose backends may still live
        self._lost_at: float | None = None
        self._steady_since = 0.0
        self._last_report = 0.0
        self._next_look = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    def _new_replica(self) -> Replica:
        return Replica(self.settings, HybridClock(physical_microseconds(time.time_ns)))

    async def start(self) -> None:
        """Register, and remove what dead gateways have left."""
        connection = await connect(self._dsn)
        try:
            self.settings = Settings(**{row["name"]: row["value"] for row in await connection.fetch(_SETTINGS)})
        finally:
            await connection.close()
        self._replica = self._new_replica()
        await self._register()
        await self._report()
        self._next_look = time.monotonic() + LOOK_SECONDS
        self._keeping = asyncio.create_task(self._keep())
        self._keeping.add_done_callback(_say_why)
        await self._look_again()

    # ── for sessions ────────────────────────────────────────────────────────────────────────────────────────

    async def serve(self) -> None:
        """Return when a statement may be served; raise 57P03 if that takes longer than DD."""
        asked = self._replica.clock.now()
        if self._replica.serve(asked) is not None:
            return
        try:
            async with asyncio.timeout(self.settings.delay), self._reported:
                while self._replica.serve(asked) is None:
                    self._poked.set()
                    await self._reported.wait()
        except TimeoutError:
            raise lost_catalog() from None

    async def settled(self, version: int) -> bool:
        """Return true when no gateway serves by the version before that update; false if this cannot be known."""
        patience = 3 * (self.settings.delay + self.settings.clock_skew)
        try:
            async with asyncio.timeout(patience):
                since = self._reports  # a report that has begun may not have seen the update
                while self._reports < since + 2 or version in self._unsettled:
                    await self._next_report()
        except TimeoutError:
            return False
        return True

    async def _next_report(self) -> None:
        """Wait for a heartbeat to be answered. One is sent if none has been for a while: notifications may be lost."""
        try:
            async with asyncio.timeout(_HEARD_SECONDS), self._reported:
                await self._reported.wait()
        except TimeoutError:
            self._poked.set()

    @property
    def heard(self) -> int:
        """How many changes of schemas were heard of."""
        return self._replica.heard

    @property
    def lag(self) -> float:
        """The seconds since the catalog was last heard."""
        return max(0.0, seconds(self._replica.clock.now() - self._replica.safe))

    # ── heartbeats ──────────────────────────────────────────────────────────────────────────────────────

    async def _register(self) -> None:
        old, self._holder = self._holder, None
        if old is not None:
            old.terminate()
        async with asyncio.timeout(_CONNECT_SECONDS_MAX):
            connection = await connect(self._dsn)
            try:
                connection.add_termination_listener(lambda _: self._poked.set())
                await listen(connection, self._words, About.SCHEMA, About.ADVANCED)
                number: int = await connection.fetchval(_REGISTER, self._address, self.number)
            except BaseException:
                connection.terminate()
                raise
        self._numbered(number)
        if self.number is not None:
            self._given_up.add(self.number)
        self._holder, self.number = connection, number

    async def _keep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.settings.heartbeat):
                    await self._poked.wait()
            except TimeoutError:
                pass
            self._poked.clear()
            try:
                if self._holder is None or self._holder.is_closed():
                    await self._register()
                    self._next_look = 0.0
                await self._report()
            except FAULTS as fault:
                self._note_fault(fault)
                await asyncio.sleep(_AGAIN_SECONDS)
            if time.monotonic() >= self._next_look and (self._looking is None or self._looking.done()):
                self._next_look = time.monotonic() + LOOK_SECONDS
                self._looking = asyncio.create_task(self._look_again())

    def _note_fault(self, fault: BaseException) -> None:
        """Log that the catalog restarts or cannot be reached. The lease decides what may still be served."""
        if self._holder is not None and not self._holder.is_closed():
            _LOG.warning("a heartbeat has failed: %s", " ".join(str(fault).split()) or type(fault).__name__)
            self._holder.terminate()
        if self._replica.clock.now() > self._replica.lease and self._lost_at is None:
            self._lost_at = time.monotonic()
            _LOG.warning("the catalog was not heard for %.1f s: nothing is served until it is", self.lag)
            self._on_lost()

    async def _report(self) -> None:
        """Send a heartbeat; repeat while there is news, which confirms it."""
        again = True
        while again:
            begun = time.monotonic()
            async with asyncio.timeout(self.settings.delay):
                told = await self._tell()
                again = self._hear(told, begun)
            async with self._reported:
                self._reports += 1
                self._reported.notify_all()

    async def _tell(self) -> dict[str, Any]:
        assert self._holder is not None
        while True:
            replica = self._replica
            arguments = self.number, replica.safe, replica.clock.now(), self._count()
            text = await self._holder.fetchval(_REPORT, *arguments)
            if text is not None:
                told: dict[str, Any] = json.loads(text)
                told["since"] = arguments[1]
                return told
            await asyncio.sleep(_PUBLISHING_SECONDS)

    def _hear(self, told: dict[str, Any], begun: float) -> bool:
        """Take in the answer to a heartbeat; return whether something is to be confirmed at once."""
        updates = [_update(each) for each in told["updates"]]
        news = any(max(each.written, each.made_active or 0) > told["since"] for each in updates)
        self._replica.hear(Word(told["since"], told["safe"], updates))
        self._unsettled = frozenset(told["unsettled"])
        if begun - self._last_report > self.settings.delay:
            self._steady_since = begun
        self._last_report = begun
        if self._lost_at is not None:
            _LOG.warning("the catalog is heard again, after %.1f s", begun - self._lost_at)
            self._lost_at = None
        if any(self._is_overdue(each, told["safe"]) for each in told["peers"]):
            self._next_look = min(self._next_look, begun + self.settings.heartbeat)
        return news and bool(self._unsettled)

    def _is_overdue(self, peer: dict[str, Any], safe: int) -> bool:
        """Whether another gateway was silent for two leases while this one heard the catalog all the time."""
        bound = 2 * self.settings.delay + self.settings.clock_skew
        return (
            not peer["gone"]
            and peer["number"] != self.number
            and peer["granted"] + duration(bound) < safe
            and self._is_steady
        )

    @property
    def _is_steady(self) -> bool:
        return time.monotonic() - self._steady_since > 2 * self.settings.delay + self.settings.clock_skew

    # ── dead gateways ───────────────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> None:
        async with asyncio.timeout(LOOK_SECONDS):
            connection = await connect(self._dsn)
            try:
                asked_by = self.number if self._is_steady and self._lost_at is None else None
                given_up = list(self._given_up)
                if await connection.fetchval("SELECT pg_sluice.end_gateways($1, $2)", asked_by, given_up):
                    ended = frozenset(row["gateway_id"] for row in await connection.fetch(_ENDED))
                    await self._clean(ended)
                    await connection.execute(_CLEANED, list(ended))
                    await connection.execute(_FORGET, list(ended))
                self._given_up.difference_update(given_up)
                await connection.execute(_FORGET_SESSIONS)
                await connection.execute(_TIDY)
            finally:
                connection.terminate()

    async def _look_again(self) -> None:
        """Look for dead gateways, and log a failure: the next look does the rest."""
        try:
            await self._look()
        except FAULTS as fault:
            _LOG.warning("what gateways that are gone have left is left to the next look: %r", fault)

    async def close(self) -> None:
        """End the registration. This gateway writes nothing afterwards."""
        for task in (self._keeping, self._looking):
            await end(task)
        self._words.close()
        self._keeping = self._looking = None
        if self._holder is not None:
            try:
                async with asyncio.timeout(self.settings.delay):
                    await self._holder.execute(_END_OWN, self.number)
                    await self._holder.close()
            except FAULTS:  # the next look finds the backend gone
                self._holder.terminate()


def _say_why(keeping: asyncio.Task[None]) -> None:
    """Log why the heartbeats have ended, so that an unexpected fault is seen."""
    if not keeping.cancelled() and (fault := keeping.exception()) is not None:
        _LOG.critical("heartbeats have ended, nothing is served any more", exc_info=fault)


def _update(told: dict[str, Any]) -> Update:
    return Update(told["version"], frozenset(told["objects"]), told["written"], told["made_active"], told["settled"])


def lost_catalog() -> SluiceError:
    """Return the error of a gateway without a lease: it may not know the schema changes of others."""
    return SluiceError(
        SqlState.CANNOT_CONNECT_NOW,
        "the gateway does not hear its catalog",
        hint="Try again in a moment, or through another gateway.",
    )
