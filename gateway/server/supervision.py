"""The embedded PostgreSQL of a data directory, whichever gateway runs it.

Whoever holds the directory's lock runs PostgreSQL, and starts it again when it has died; the others use it. PostgreSQL
dies with the gateway that runs it, be that by kill -9 (`catalog.postgres.embedded`), and the lock is free then: the
next to find it so takes over. Meanwhile clients get 57P01 to 57P03 and may try again. One that has outlived its gateway
in spite of that is ended by who takes over.
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
    """`start` returns when the catalog is up, whoever runs it; `keep` sees to it that somebody does."""

    def __init__(self, directory: DataDirectory, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._postgres = EmbeddedPostgres(directory.catalog)
        self._say = say

    @property
    def url(self) -> str:
        """The database of the lake, as gateways log in."""
        return self._postgres.url(CLIENT_DATABASE, GATEWAY_ROLE)

    @property
    def superuser_url(self) -> str:
        """The same, to be made a catalog."""
        return self._postgres.url(CLIENT_DATABASE)

    async def start(self) -> None:
        """Run PostgreSQL, or wait for who does. 57P03 where that takes too long."""
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
        """Whether PostgreSQL runs, as this process's own."""
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
        """For ever: start it again when it has died, or when who ran it is gone."""
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
        """Run it no more; where there are other gateways, one of them starts it again."""
        if self._directory.is_held:
            await self._postgres.stop()
            self._directory.release()
