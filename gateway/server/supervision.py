"""Supervises the embedded PostgreSQL of a data directory that several gateways may share.

The gateway that holds the directory's lock runs PostgreSQL, and restarts it when it has died; the others use it.
PostgreSQL ends with that gateway, even after kill -9 (`catalog.postgres.embedded`), which frees the lock; another
gateway then takes over. Meanwhile clients get 57P01 to 57P03 and may try again. If PostgreSQL outlives its gateway,
the one that takes over ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from catalog.bootstrap import CLIENT_DATABASE, create_client_database
from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.postgres.embedded import EmbeddedPostgres
from catalog.postgres.own_settings import GATEWAY_ROLE, SAFE_SETTINGS
from gateway.server.data_directory import DataDirectory

_LOG: Final = logging.getLogger("sluice.supervision")
_LOOK_SECONDS: Final = 0.1
_START_SECONDS_MAX: Final = 60.0


class Supervision:
    """`start` returns when the catalog runs, whichever gateway runs it; `keep` makes sure that one does."""

    def __init__(self, directory: DataDirectory, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._postgres = EmbeddedPostgres(directory.catalog)
        self._say = say

    @property
    def url(self) -> str:
        """The URL of the lake's database, for gateways."""
        return self._postgres.url(CLIENT_DATABASE, GATEWAY_ROLE)

    @property
    def superuser_url(self) -> str:
        """The same for a superuser, to make the catalog."""
        return self._postgres.url(CLIENT_DATABASE)

    async def start(self) -> None:
        """Run PostgreSQL, or wait for the gateway that does. 57P03 after a timeout."""
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                while True:
                    if await self._take_over() or await self._is_up():
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"another gateway has {self._directory.root}, but its catalog does not start",
            ) from None

    async def _take_over(self) -> bool:
        """Try to run PostgreSQL; whether it runs as this process's own."""
        if not self._directory.acquire():
            return False
        if self._postgres.process_id is None:
            await self._postgres.start()
            await create_client_database(self._postgres.dsn)
        return True

    async def _is_up(self) -> bool:
        try:
            connection = await connect(self.superuser_url, SAFE_SETTINGS)
        except SluiceError:
            return False  # it is being made, or is starting
        await connection.close()
        return True

    async def keep(self) -> None:
        """For ever: restart PostgreSQL when it has died, or take over when its gateway has ended."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            ran = self._directory.is_held
            if ran and self._postgres.process_id is not None:
                continue
            try:
                if await self._take_over():
                    self._say(f"the embedded PostgreSQL has {'died' if ran else 'lost its gateway'}; started it again")
            except SluiceError:
                _LOG.exception("the embedded PostgreSQL does not start")

    async def stop(self) -> None:
        """Stop PostgreSQL; if other gateways exist, one of them starts it again."""
        if self._directory.is_held:
            await self._postgres.stop()
            self._directory.release()
