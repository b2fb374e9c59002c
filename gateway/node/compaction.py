"""Compacts one table: chooses files, writes new ones, and replaces the old ones, group by group.

Each group of files becomes a snapshot of its own, in which no row changes. Compaction yields to other work. If rows of
the table are locked, or its schema changes, it waits a little and then leaves the files unchanged
(catalog/sql/maintenance.sql). Where writers never pause, it waits in line among them for a moment. What they have
deleted meanwhile it deletes from the new files. Killed at any moment, it leaves only files that no snapshot names.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.maintenance.compaction import InLine, TurnLostError
from gateway.node.unresolved_commit import remove_unresolved
from storage.maintenance.carried_deletions import carried_deletions
from storage.maintenance.compaction import Policy, divided_anew, due, is_to_be_divided, merged
from storage.maintenance.sorted_files import sorting, source_order, tells_order
from storage.parquet.file_syncs import file_syncs
from storage.parquet.parquet_writer import FILE_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from catalog.maintenance.compaction import Turn
    from catalog.model import DataFile, TableVersion
    from catalog.publish import Deletion
    from gateway.node.gateway_context import GatewayContext

Settle = Callable[[], Awaitable[tuple[Sequence["DataFile"], Sequence["Deletion"]]]]
# The number of each new row among the live rows of the old files. Blocking, once.
Order = Callable[[], "npt.NDArray[np.int64]"]
Writer = Callable[["TableVersion", Sequence["DataFile"]], Awaitable[tuple[Sequence["DataFile"], Order | None]]]

_AGAIN_SECONDS: Final = 0.05
# Of so many tries, about as many as a second has, these wait in line, for so many milliseconds.
_TRIES: Final = 20
_MILLISECONDS_IN_LINE: Final = {1: 50, 10: 300}
# How often a table is tried again while other transactions keep changing its files.
_ROUNDS_MAX: Final = 5


@dataclass(slots=True)
class Compacted:
    """The result of a compaction. `gave_way` names the work that it yielded to, if any."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    gave_way: str | None = None

    def add(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Count files that were replaced."""
        self.files_before += len(old)
        self.files_after += len(new)
        self.rows += sum(file.record_count for file in new)
        self.bytes_before += sum(file.size_bytes for file in old)
        self.bytes_after += sum(file.size_bytes for file in new)


@dataclass(frozen=True, slots=True)
class Pace:
    """`patience`: how many seconds a commit waits for other transactions. `rest`: the pause after writing files, as a
    multiple of the time that it took.
    """

    patience: float
    rest: float = 0.0


class Compaction:
    """`run` compacts a table once; it must have the table's turn. The task may be cancelled at any time."""

    def __init__(self, gateway: GatewayContext, turn: Turn, pace: Pace) -> None:
        self._gateway = gateway
        self._turn = turn
        self._pace = pace
        self._file_bytes = FILE_BYTES

    async def run(self, relid: int, policy: Policy) -> Compacted:
        """Rewrite files that are due; if all are due, also those that other transactions change meanwhile. Files of a
        table with a sort key may be due in turn, until few overlap, and so may those of partitions."""
        self._file_bytes = policy.file_bytes
        done, result = set[str](), Compacted()
        for _ in range(_ROUNDS_MAX):
            before, result.gave_way = result.gave_way, None
            reading = self._gateway.store.readers.begin()
            try:
                version = (await self._gateway.store.versions([relid])).get(relid)
                if version is None:
                    break  # the table was dropped
                groups = await asyncio.to_thread(due, version, policy)
                groups = [group for group in groups if not done.issuperset(file.path for file in group)]
                result.gave_way = None if groups else before
                for group in groups:
                    write = self._writer(version, group)
                    known = write == self._merge or tells_order(group)
                    await self.replace(version, group, write, result, in_order=known)
                    done.update(file.path for file in group)
            finally:
                self._gateway.store.readers.end(reading)
            laid_out = version.table.sort_key or version.table.partition_key
            in_turn = bool(groups and laid_out) and not policy.all_files
            if not (in_turn if result.gave_way is None else policy.all_files):
                break
        return result

    async def replace(
        self,
        version: TableVersion,
        old: Sequence[DataFile],
        write: Writer,
        result: Compacted,
        *,
        in_order: bool = False,
    ) -> Sequence[DataFile]:
        """Replace files by those that `write` makes of them; if it makes none, leave them unchanged. With `in_order`,
        these have the live rows in the old order, or `write` tells in which, so that rows deleted meanwhile are found
        again."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        new, order = await write(version, old)
        taken = loop.time() - begun
        paths = {f"{version.table.path}{file.path}" for file in new}

        carried = set[str]()

        async def settle() -> tuple[Sequence[DataFile], Sequence[Deletion]]:
            await self._gateway.engine.remove(carried)  # those of a former try
            carried.clear()
            present = (await self._gateway.store.versions([version.table.oid])).get(version.table.oid)
            now = {} if present is None else {file.path: file for file in present.files}
            carrying = asyncio.ensure_future(
                asyncio.to_thread(
                    lambda: carried_deletions(
                        self._gateway.data_path, version.table, old, now, new, None if order is None else order()
                    )
                )
            )
            try:
                await asyncio.wait([carrying])
            finally:  # also of a cancelled task: the thread ends by itself, and its files are removed with the others
                if not carrying.done():
                    await asyncio.wait([carrying])
                if carrying.exception() is None:
                    carried.update(
                        f"{version.table.path}{path}" for each in carrying.result() for path in each.file.new_paths
                    )
            deletions = carrying.result()
            return [now[file.path] for file in old if file.path in now], deletions

        try:
            await file_syncs.done(paths)
            why = await self._publish(version, old, new, settle if in_order else None)
        except TurnLostError:
            self._gateway.later(remove_unresolved(self._gateway, paths | carried, self._turn.backend))
            raise
        except BaseException:
            await self._turn.close()  # a commit that has not happened by now cannot happen
            self._gateway.later(remove_unresolved(self._gateway, paths | carried, self._turn.backend))
            raise
        if why is not None:
            result.gave_way = why
            await self._gateway.engine.remove(paths | carried)
            return ()
        result.add(old, new)
        await asyncio.sleep(taken * self._pace.rest)
        return new

    async def _publish(
        self, version: TableVersion, old: Sequence[DataFile], new: Sequence[DataFile], settle: Settle | None
    ) -> str | None:
        """Try until the patience ends: other transactions release their locks when they commit. Every so often, wait in
        line, as they may come one after another. The reason returned is that of the last try out of line, as a wait in
        line does not learn what the others do."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._pace.patience
        tries, reason = 0, None
        while True:
            wait = _MILLISECONDS_IN_LINE.get(tries % _TRIES)
            in_line = None if settle is None or wait is None else InLine(wait, settle)
            why = await self._turn.publish(version.table, old, new, in_line)
            reason = why if in_line is None else reason
            if why is None:
                return None
            if loop.time() >= deadline:
                return reason
            if why.endswith("changed") and (settle is None or in_line is not None):
                return why
            tries += 1
            if settle is None or tries % _TRIES not in _MILLISECONDS_IN_LINE:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _sort(self, version: TableVersion, old: Sequence[DataFile]) -> tuple[Sequence[DataFile], Order | None]:
        insert = sorting(version, old, self._file_bytes)
        result = await self._gateway.engine.insert(insert, f"compaction-{version.table.oid}")
        sources = result.returning
        if sources is None:
            return result.data_files, None
        known: list[npt.NDArray[np.int64]] = []

        def order() -> npt.NDArray[np.int64]:
            if not known:
                known.append(source_order(self._gateway.data_path, version.table, old, sources))
            return known[0]

        return result.data_files, order

    def _writer(self, version: TableVersion, group: Sequence[DataFile]) -> Writer:
        if is_to_be_divided(version.table, group[0]):
            return self._divide
        return self._sort if version.table.sort_key else self._merge

    async def _merge(self, version: TableVersion, old: Sequence[DataFile]) -> tuple[Sequence[DataFile], Order | None]:
        def write(stopped: Callable[[], bool]) -> tuple[Sequence[DataFile], None]:
            return merged(self._gateway.data_path, version.table, old, stopped, self._file_bytes), None

        return await self._without_spark(version, write)

    async def _divide(self, version: TableVersion, old: Sequence[DataFile]) -> tuple[Sequence[DataFile], Order | None]:
        def write(stopped: Callable[[], bool]) -> tuple[Sequence[DataFile], Order | None]:
            files, order = divided_anew(self._gateway.data_path, version.table, old, stopped, self._file_bytes)
            return files, None if order is None else lambda: order

        return await self._without_spark(version, write)

    async def _without_spark(
        self,
        version: TableVersion,
        write: Callable[[Callable[[], bool]], tuple[Sequence[DataFile], Order | None]],
    ) -> tuple[Sequence[DataFile], Order | None]:
        stop = threading.Event()
        writing = asyncio.ensure_future(asyncio.to_thread(write, stop.is_set))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([writing])
            if writing.exception() is None:
                files, _ = writing.result()
                await self._gateway.engine.remove([f"{version.table.path}{file.path}" for file in files])
            raise
