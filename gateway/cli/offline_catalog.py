"""Opens a lake's catalog for a command, whether a gateway serves it or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from catalog.bootstrap import CLIENT_DATABASE
from catalog.errors import SluiceError, SqlState
from catalog.postgres.embedded import EmbeddedPostgres
from catalog.postgres.own_settings import GATEWAY_ROLE
from catalog.store import Store
from gateway.server.data_directory import DataDirectory


@asynccontextmanager
async def opened(directory: DataDirectory, catalog: str | None) -> AsyncIterator[Store]:
    """Reads of the catalog. An embedded one without a gateway is started meanwhile."""
    if catalog is not None:
        async with _store(catalog) as store:
            yield store
        return
    if not (directory.catalog / "cluster").exists():
        raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
    postgres = EmbeddedPostgres(directory.catalog)
    if not directory.acquire():
        async with _store(postgres.url(CLIENT_DATABASE, GATEWAY_ROLE)) as store:
            yield store
        return
    try:
        await postgres.start()
        async with _store(postgres.url(CLIENT_DATABASE, GATEWAY_ROLE)) as store:
            yield store
    finally:
        await postgres.stop()
        directory.release()


@asynccontextmanager
async def _store(dsn: str) -> AsyncIterator[Store]:
    store = Store(dsn)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
