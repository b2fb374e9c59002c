"""`sluice check`: whether the lake's files are what the catalog says, at every snapshot, and rows keep constraints."""

from __future__ import annotations

import asyncio

from catalog.bootstrap import CLIENT_DATABASE
from catalog.embedded import EmbeddedPostgres
from catalog.errors import SluiceError, SqlState
from catalog.store import Store
from gateway.data_directory import DataDirectory
from storage.check import check_files
from storage.consistency import check_constraints


async def check(directory: DataDirectory, catalog: str | None) -> list[str]:
    """The faults found, a line each. With an embedded catalog that no gateway serves, it is started for the while."""
    if catalog is not None:
        return await _check(catalog)
    if not (directory.catalog / "cluster").exists():
        raise SluiceError(SqlState.IO_ERROR, f"there is no lake in {directory.root}")
    postgres = EmbeddedPostgres(directory.catalog)
    if directory.is_served():
        return await _check(postgres.url(CLIENT_DATABASE))
    directory.acquire()
    try:
        await postgres.start()
        return await _check(postgres.url(CLIENT_DATABASE))
    finally:
        await postgres.stop()
        directory.release()


async def _check(dsn: str) -> list[str]:
    store = Store(dsn)
    await store.open()
    try:
        versions = await store.history()
        rows = await store.fetch("SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path'")
        data_path = rows[0]["value"]
        findings = await asyncio.to_thread(check_files, data_path, versions)
        relations = await store.fetch("SELECT relid::bigint FROM pg_sluice.relation")
        newest = await store.versions([row["relid"] for row in relations])
        # What cannot be read has been said already.
        broken = {finding.path.rpartition("/")[0] + "/" for finding in findings if finding.kind != "orphan"}
        whole = [version for version in newest.values() if version.table.path not in broken]
        findings += await asyncio.to_thread(check_constraints, data_path, whole)
    finally:
        await store.close()
    return [f"{finding.kind}: {finding.path}: {finding.message}" for finding in findings]
