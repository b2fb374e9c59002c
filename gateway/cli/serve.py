"""`sluice serve`: starts and stops a gateway: catalog, Spark, socket, signals."""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from urllib.parse import quote

from catalog.background import end
from catalog.bootstrap import CLIENT_ROLE, bootstrap
from catalog.gateways import Gateways
from catalog.schema.schema_changes import undo_abandoned
from catalog.schema.schema_notifications import SchemaNews
from catalog.store import Store
from gateway.backend.dsn import endpoint, in_url
from gateway.cli.serve_options import Options
from gateway.node.gateway_context import GatewayContext
from gateway.server.background_maintenance import Maintainer
from gateway.server.certificate import ensure_certificate
from gateway.server.connections import Server
from gateway.server.data_directory import DataDirectory
from gateway.server.open_files import allow_open_files
from gateway.server.other_database import OTHER_DATABASES
from gateway.server.startup import APPLICATION_PROTOCOL
from gateway.server.supervision import Supervision
from gateway.session import offload
from planner.tree.builtins import FUNCTIONS_QUERY, TYPES_QUERY, Builtins
from storage.maintenance.orphan_files import remove_leftovers, written_by
from storage.parquet import layout
from storage.parquet.object_store import connect, reads_itself
from storage.spark.engine import EngineSettings, SparkEngine
from storage.spark.jvm import check_settings


async def serve(directory: DataDirectory, options: Options) -> None:
    """Run a gateway until SIGTERM, which lets statements end, or SIGINT or a second signal, which does not."""
    stopping, hurrying = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_now(*, hurry: bool) -> None:
        if hurry or stopping.is_set():
            hurrying.set()
        stopping.set()

    loop.add_signal_handler(signal.SIGINT, lambda: stop_now(hurry=True))
    loop.add_signal_handler(signal.SIGTERM, lambda: stop_now(hurry=False))
    allow_open_files(options.limits.max_connections)
    data_path = options.data_path or directory.data_path
    if not data_path.endswith("/"):
        data_path += "/"
    object_store = None
    if not layout.is_local(data_path):
        object_store = replace(options.store, spark_reads=reads_itself(options.spark_conf))
    settings = EngineSettings(
        url=options.spark,
        driver_memory=options.driver_memory,
        ui=options.spark_ui,
        spark=options.spark_conf,
        log=directory.spark_log,
        unread_folder=directory.unread,
        unread_limit=options.unread_limit,
        temp_file_limit=options.temp_file_limit,
        shuffled=options.shuffled,
        store=object_store,
    )
    check_settings(settings)
    directory.make()
    async with AsyncExitStack() as stack:
        if object_store is not None:
            object_store = replace(object_store, copies=directory.claim_copies())
            await asyncio.to_thread(connect(data_path, object_store).check)
        dsn = superuser = options.catalog
        if dsn is None or superuser is None:
            _say("starting the embedded PostgreSQL")
            supervision = Supervision(directory, _say)
            await supervision.start()
            stack.push_async_callback(supervision.stop)
            dsn, superuser = supervision.url, supervision.superuser_url
            supervisor = asyncio.create_task(supervision.keep())
            stack.push_async_callback(end, supervisor)
        address, database = endpoint(dsn)
        mock_nonce = await bootstrap(superuser, data_path)
        store = Store(dsn)
        await store.open()
        stack.push_async_callback(store.close)
        await store.readers.start()
        gateway: GatewayContext | None = None
        gateways = Gateways(
            dsn,
            lambda number: _number(store, number),
            lambda ended: _clean_up(store, dsn, data_path, ended),
            lost=lambda: None if gateway is None else gateway.catalog_lost(),
            count=lambda: None if gateway is None else len(gateway.sessions),
            address=options.address,
        )
        await gateways.start()
        stack.push_async_callback(gateways.close)
        await undo_abandoned(dsn)
        functions, types = await store.fetch(FUNCTIONS_QUERY), await store.fetch(TYPES_QUERY)
        builtins = Builtins.from_rows(map(tuple, functions), map(tuple, types))
        _say(f"starting Spark ({options.spark})")
        engine = SparkEngine(data_path, settings)
        stack.push_async_callback(engine.stop)
        starting = asyncio.create_task(engine.start())
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            starting.cancel()
            return
        await starting
        gateway = GatewayContext(
            store, engine, builtins, mock_nonce, address, database, data_path, gateways, options.engine
        )
        if options.catalog is None:
            gateway.other_databases = OTHER_DATABASES
        gateway.indexing.start()
        stack.push_async_callback(gateway.indexing.close)
        news = SchemaNews(dsn, gateway.schema_changed)
        news.start()
        stack.push_async_callback(news.close)
        if options.maintenance:
            maintainer = Maintainer(gateway)
            maintainer.start()
            stack.push_async_callback(maintainer.close)
        certificate, key = ensure_certificate(directory.tls, options.host)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        tls.set_alpn_protocols([APPLICATION_PROTOCOL])
        server = Server(gateway, tls, options.limits)
        await server.start(options.host, options.port)
        stack.push_async_callback(server.stop)
        offload.prepare()
        user = CLIENT_ROLE if options.catalog is None else "USER"
        _say(f"ready: postgresql://{user}@{in_url(options.host)}:{server.port}/{quote(database)}")
        await stop
        _say("stopping")
        draining = asyncio.create_task(server.drain(options.grace))
        hurry = asyncio.create_task(hurrying.wait())
        await asyncio.wait((draining, hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await end(draining)


def _number(store: Store, number: int) -> None:
    """From now on, record files and schema changes under the gateway's number."""
    layout.write_as(number)
    store.gateway_number = number


async def _clean_up(store: Store, dsn: str, data_path: str, ended: frozenset[int]) -> None:
    """Remove files of ended gateways, and undo their unfinished schema changes."""
    await undo_abandoned(dsn)
    # Ended gateways come first: everything that they have published is then in later reads of the catalog.
    written = await asyncio.to_thread(written_by, data_path, ended)
    published = {*await store.published(written), *await store.sidecars.paths()}
    removed = await asyncio.to_thread(remove_leftovers, data_path, written, published)
    if removed:
        _say(f"removed {removed} files that a gateway has left unpublished")


def _say(line: str) -> None:
    print(line, flush=True, file=sys.stdout)
