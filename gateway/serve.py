"""Putting a gateway together and taking it down: catalog, Spark, socket, signals."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from catalog.bootstrap import CLIENT_DATABASE, CLIENT_ROLE, bootstrap, create_client_database
from catalog.embedded import PORT, SUPERUSER, EmbeddedPostgres
from catalog.errors import SluiceError, SqlState
from catalog.store import Store
from gateway.backend import Address
from gateway.certificate import ensure_certificate
from gateway.context import GatewayContext
from gateway.data_directory import DataDirectory
from gateway.server import Server
from planner.builtins import FUNCTIONS_QUERY, TYPES_QUERY, Builtins
from storage.engine import EngineSettings, SparkEngine

_SUPERVISE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """What `sluice serve` was given. `catalog` is a postgresql:// URI, or None for the embedded one."""

    host: str
    port: int
    catalog: str | None = None
    spark: str = "local[*]"
    data_path: str | None = None


async def serve(directory: DataDirectory, options: Options) -> None:
    """Run a gateway until SIGINT or SIGTERM."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    directory.acquire()
    async with AsyncExitStack() as stack:
        stack.callback(directory.release)
        data_path = options.data_path or directory.data_path
        if not data_path.endswith("/"):
            data_path += "/"
        dsn = options.catalog
        if dsn is None:
            _say("starting the embedded PostgreSQL")
            postgres = EmbeddedPostgres(directory.catalog)
            await postgres.start()
            stack.push_async_callback(postgres.stop)
            await create_client_database(postgres.dsn)
            dsn = postgres.url(CLIENT_DATABASE)
            supervisor = asyncio.create_task(_supervise(postgres))
            stack.push_async_callback(_end, supervisor)
        address, database = endpoint(dsn)
        token = await bootstrap(dsn, data_path)
        store = Store(dsn)
        await store.open()
        stack.push_async_callback(store.close)
        functions, types = await store.fetch(FUNCTIONS_QUERY), await store.fetch(TYPES_QUERY)
        builtins = Builtins.from_rows(map(tuple, functions), map(tuple, types))
        _say(f"starting Spark ({options.spark})")
        engine = SparkEngine(data_path, EngineSettings(url=options.spark, log=directory.spark_log))
        stack.push_async_callback(engine.stop)
        starting = asyncio.create_task(engine.start())
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            starting.cancel()
            return
        await starting
        gateway = GatewayContext(store, engine, builtins, token, address, database, data_path)
        certificate, key = ensure_certificate(directory.tls, options.host)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        server = Server(gateway, tls)
        await server.start(options.host, options.port)
        stack.push_async_callback(server.stop)
        user = CLIENT_ROLE if options.catalog is None else "USER"
        _say(f"ready: postgresql://{user}@{options.host}:{server.port}/{quote(database)}")
        await stop
        _say("stopping")


def attach_statement(directory: DataDirectory, catalog: str | None) -> str:
    """The statement with which DuckDB, its extensions ducklake and postgres loaded, reads the lake."""
    dsn = catalog
    if dsn is None:
        if not (directory.catalog / "cluster").exists():
            raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
        dsn = EmbeddedPostgres(directory.catalog).url(CLIENT_DATABASE)
    address, database = endpoint(dsn)
    user = urlsplit(dsn).username or SUPERUSER
    parameters = f"dbname={database} host={address.host} port={address.port} user={unquote(user)}"
    return f"ATTACH 'ducklake:postgres:{parameters}' AS lake (METADATA_SCHEMA 'pg_ducklake', READ_ONLY);"


def endpoint(dsn: str) -> tuple[Address, str]:
    """Host, port and database of a postgresql:// URI."""
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "--catalog takes a postgresql:// URI")
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", ["localhost"])[0]
    port = parts.port or int(query.get("port", [str(PORT)])[0])
    database = unquote(parts.path.lstrip("/")) or unquote(parts.username or SUPERUSER)
    return Address(host, port), database


async def _supervise(postgres: EmbeddedPostgres) -> None:
    """Start PostgreSQL again when it has died; sessions that were on it are told and end."""
    while True:
        await asyncio.sleep(_SUPERVISE_SECONDS)
        if postgres.process_id is None:
            _say("the embedded PostgreSQL has died; starting it again")
            await postgres.start()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


def _say(line: str) -> None:
    print(line, flush=True, file=sys.stdout)
