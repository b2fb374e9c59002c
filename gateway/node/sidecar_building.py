"""Makes the sidecars of indexes: by CREATE INDEX for existing files, and in the background for new ones.

Contract: `fill` makes the sidecars that an index lacks, file by file. Each one counts once it is in the catalog. So an
interruption loses one file's work, and two concurrent runs for one index do no harm. A file without a sidecar is read
as a whole. `Indexing` makes the sidecars of newly committed files, and removes those of dropped indexes and files.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.background import end
from catalog.errors import SluiceError, SqlState
from catalog.indexes import Index, IndexForm
from catalog.model import DataFile, Table, TableVersion
from catalog.postgres.pool import FAULTS, log_fault
from planner.plans.index_keys import decided_rows, plan_keys
from planner.spark.plan import Context, SessionValues, SparkQuery
from storage.indexes.sidecars import POSITION, column_keys, key_columns, why_unused, write_sidecar
from storage.parquet.arrow_types import arrow_type
from storage.plan import BoundScan, RunnableQuery

if TYPE_CHECKING:
    from gateway.node.gateway_context import GatewayContext

_LOG: Final = logging.getLogger("sluice.indexing")
_LOOK_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 5.0

Progress = Callable[[int, int], Awaitable[None]]


async def fill(
    gateway: GatewayContext,
    relid: int,
    index: Index,
    tag: str,
    *,
    progress: Progress | None = None,
    together: int = 1,
) -> None:
    """Make the sidecars that the index lacks, of so many files `together`. Before each file, `progress` gets the number
    of finished files and of all files.

    An index whose keys cannot be searched is marked as unused. `tag` is the engine's name for the jobs.
    """
    sidecars, passed = gateway.store.sidecars, set[int]()
    reason = why_unused(index.form)
    if reason is not None:
        await sidecars.refuse(index, reason)
        return
    while missing := [each for each in await sidecars.lacking(index) if each not in passed]:
        total = max(await sidecars.total(relid), len(missing))
        version = (await gateway.store.versions([relid])).get(relid)
        filling = _Filling(gateway, version, index, tag, progress, missing, total)
        # One that fails does not stop another in the middle of its file.
        ends = await asyncio.gather(*(filling.work() for _ in range(together)), return_exceptions=True)
        passed.update(missing)
        for error in ends:
            if isinstance(error, SluiceError) and error.sqlstate == SqlState.FEATURE_NOT_SUPPORTED:
                await sidecars.refuse(index, error.message)
                return
            if isinstance(error, BaseException):
                raise error
        if progress is not None:
            await progress(total, total)


class _Filling:
    """The files of one version of a table that lack a sidecar; `work` may run several times at once."""

    def __init__(  # noqa: PLR0917
        self,
        gateway: GatewayContext,
        version: TableVersion | None,
        index: Index,
        tag: str,
        progress: Progress | None,
        missing: Sequence[int],
        total: int,
    ) -> None:
        self._gateway, self._version, self._index, self._tag = gateway, version, index, tag
        self._progress, self._total = progress, total
        self._files = {} if version is None else {file.data_file_id: file for file in version.files}
        self._missing = deque(missing)
        self._left = len(missing)
        self._reporting = asyncio.Lock()

    async def work(self) -> None:
        """Make sidecars until no file is left. An error leaves all files that are not begun."""
        while self._missing:
            data_file_id = self._missing.popleft()
            try:
                if self._progress is not None:
                    async with self._reporting:
                        await self._progress(self._total - self._left, self._total)
                file = self._files.get(data_file_id)
                if self._version is not None and file is not None:  # else it was removed meanwhile
                    await _make(self._gateway, self._version, self._index, file, self._tag)
            except BaseException:
                self._missing.clear()
                raise
            self._left -= 1


async def _make(gateway: GatewayContext, version: TableVersion, index: Index, file: DataFile, tag: str) -> None:
    path, since, form = gateway.data_path, 0, index.form
    conditions = decided_rows(version.table, form, _context(gateway, version.table))
    if conditions is None:
        rows = (await computed_keys(gateway, version.table, form, [file], tag))[file.path]
        # Deleted rows are left out: their values may be why they were deleted.
        since = 0 if file.delete_file is None else version.snapshot_id
    else:
        rows = await asyncio.to_thread(column_keys, path, version.table, form, file, conditions)
    sidecar = await asyncio.to_thread(write_sidecar, path, version.table, index, file, rows, since)
    added = False
    try:
        added = await gateway.store.sidecars.add(sidecar)
    finally:
        if not added:
            await gateway.engine.remove([sidecar.file.path])


def keys_query(gateway: GatewayContext, table: Table, form: IndexForm, *, of_one_file: bool = False) -> SparkQuery:
    """The query that computes the keys of a table's rows. 0A000 if Spark cannot."""
    return plan_keys(table, form, key_columns(form), _context(gateway, table), of_one_file=of_one_file)


def _context(gateway: GatewayContext, table: Table) -> Context:
    """The context of an index's expressions, which are immutable: no setting matters."""
    return Context(gateway.builtins, {table.oid: table}, SessionValues(0, 0))


async def computed_keys(
    gateway: GatewayContext, table: Table, form: IndexForm, files: Sequence[DataFile], tag: str
) -> dict[str, pa.Table]:
    """The keys of each file's live rows that satisfy the index's predicate, and `position`, computed by Spark."""
    of_one_file = len(files) == 1
    query = keys_query(gateway, table, form, of_one_file=of_one_file)
    only = TableVersion(table, 0, tuple(files))
    scans = tuple(BoundScan(scan, only) for scan in query.scans)
    schema = pa.schema([(column.name, arrow_type(column.form)) for column in key_columns(form)])
    schema = schema.append(pa.field(POSITION, pa.int64()))
    batches: dict[str, list[pa.RecordBatch]] = {file.path: [] for file in files}
    async with await gateway.engine.stream(RunnableQuery(query.sql, scans, "UTC"), tag) as stream:
        async for batch in stream:
            places, *keys = batch.columns if of_one_file else batch.columns[1:]
            casted = [array.cast(field.type) for array, field in zip([*keys, places], schema, strict=True)]
            rows = pa.RecordBatch.from_arrays(casted, schema=schema)
            if of_one_file:
                batches[files[0].path].append(rows)
                continue
            for path in pc.unique(batch.column(0)).to_pylist():
                batches[path].append(rows.filter(pc.equal(batch.column(0), path)))
    return {path: pa.Table.from_batches(found, schema) for path, found in batches.items()}


class Indexing:
    """The background work of one gateway. `start` begins it, `wake` announces new work, `close` ends it."""

    def __init__(self, gateway: GatewayContext) -> None:
        self._gateway = gateway
        self._woken = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for work."""
        self._woken.set()
        self._working = asyncio.create_task(self._work())

    def wake(self) -> None:
        """Data files or indexes were added or removed."""
        self._woken.set()

    async def close(self) -> None:
        """Stop; the next gateway makes what is missing."""
        working, self._working = self._working, None
        await end(working)

    async def _work(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass  # another gateway may have died in this work
            self._woken.clear()
            try:
                await self._complete()
                await self._sweep()
            except FAULTS as fault:
                log_fault(_LOG, "sidecars of indexes are left to the next look", fault)
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _complete(self) -> None:
        gateway = self._gateway
        for relid, index in await gateway.store.sidecars.incomplete():
            try:
                await fill(gateway, relid, index, f"index {index.index_id}")
            except SluiceError as error:
                # If the expression fails for a row, PostgreSQL would have refused that row at its INSERT.
                if not error.sqlstate.startswith("22"):
                    raise
                await gateway.store.sidecars.refuse(index, error.message)

    async def _sweep(self) -> None:
        gone = await self._gateway.store.sidecars.superseded()
        if gone:
            await self._gateway.engine.remove([path for _, path in gone])
            await self._gateway.store.sidecars.forget([key for key, _ in gone])
