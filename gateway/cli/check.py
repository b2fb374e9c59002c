"""`sluice check`: compares the lake's files with the catalog at every snapshot, and checks rows for constraints."""

from __future__ import annotations

import asyncio
from typing import Final

from catalog.snapshots import filled, misplaced, scheduled_files, unreadable
from gateway.cli.offline_catalog import opened
from gateway.server.data_directory import DataDirectory
from storage.finding import Finding
from storage.indexes.sidecars import check_sidecars
from storage.maintenance.check import check_files
from storage.maintenance.consistency import check_constraints
from storage.maintenance.partition_check import check_partitions
from storage.parquet.layout import is_local
from storage.parquet.object_store import StoreSettings, connect

# Faults of files that can be read all the same.
_READABLE: Final = {"orphan", "snapshot", "partition", "shadow"}


async def check(directory: DataDirectory, catalog: str | None, settings: StoreSettings) -> list[str]:
    """The faults found, one line each. `settings` tell how to reach an object store."""
    async with opened(directory, catalog) as store:
        store.readers.begin()
        await store.readers.start()  # no file may be removed while it is read; this begins before every snapshot
        versions = await store.history()
        rows = await store.fetch("SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path'")
        data_path = rows[0]["value"]
        if not is_local(data_path):
            await asyncio.to_thread(connect(data_path, settings).check)
        sidecars = await store.sidecars.paths()
        scheduled = await scheduled_files(store)
        findings = await asyncio.to_thread(check_files, data_path, versions, sidecars, scheduled)
        findings += await asyncio.to_thread(check_partitions, versions)
        findings += [Finding("partition", path, message) for path, message in await misplaced(store)]
        findings += [Finding("shadow", name, message) for name, message in await filled(store)]
        findings += [Finding("snapshot", path, message) for path, message in await unreadable(store)]
        relations = await store.fetch("SELECT relid::bigint FROM pg_sluice.relation")
        newest = await store.versions([row["relid"] for row in relations])
        # Unreadable files have been reported already.
        broken = {finding.path.rpartition("/")[0] + "/" for finding in findings if finding.kind not in _READABLE}
        whole = [version for version in newest.values() if version.table.path not in broken]
        findings += await asyncio.to_thread(check_constraints, data_path, whole)
        for version in whole:
            used = [index for index in version.table.indexes if index.is_used]
            if used:
                there = await store.sidecars.of(version, used)
                findings += await asyncio.to_thread(check_sidecars, data_path, version, there)
    return [f"{finding.kind}: {finding.path}: {finding.message}" for finding in findings]
