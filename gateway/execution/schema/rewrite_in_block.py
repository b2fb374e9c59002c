"""A deferred change that rewrites files, in a block (gateway/transaction/transactional_ddl.py).

Existing files are rewritten at once, outside of windows, and staged as all files of the table. So the block reads,
changes and adds rows of the new form, while others go on with the old files. Settling catches up with their commits:
added rows are rewritten and checked against the block's, and deleted rows are deleted in the new files. A row that
both have deleted raises 40001. Compaction leaves the table alone meanwhile.

A second such change of a table starts from the first one's files. Rows added by others pass through all of them in
order, and the last one stages them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile
from catalog.publish import Deletion, RowChange
from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.exclusion_check import refuse_excluded
from gateway.execution.constraints.foreign_key_referencing import refuse_missing
from gateway.execution.constraints.unique_check import refuse_duplicates
from gateway.execution.schema.catch_up import until_little_is_left
from gateway.execution.schema.table_rewrite import Reorganisation
from gateway.session.visibility import latest, staged
from storage.maintenance.reorganise import Rewritten, by_new_file, lost_positions, lost_since, with_deletions

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_IS_THERE: Final = (
    "SELECT FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid"
)


class Rewriting:
    """The rewriting of one table. First `write`, outside of windows; then `stage`, with the change in place. From then
    on, repeated `write` and `merge` catch up with commits of others. `before` is the transaction's earlier Rewriting
    of the same table, from which this one starts; only the last one may `merge`. A table that the transaction has
    `emptied` needs no catching up: rows of others are removed at COMMIT.
    """

    def __init__(
        self, session: SessionContext, columns: Reorganisation, before: Rewriting | None, *, emptied: bool = False
    ) -> None:
        self._session = session
        self._columns = columns
        self._before = before
        self._emptied = emptied
        # The positions that others have deleted in each old file, by its path: at first, and as far as they are
        # merged.
        self._at_first: dict[str, npt.NDArray[np.int64]] = {}
        self._merged: dict[str, npt.NDArray[np.int64]] = {}
        self._staged = self._reverted = False

    @property
    def relid(self) -> int:
        """The table whose files are rewritten."""
        return self._columns.relid

    async def is_there(self) -> bool:
        """Whether the transaction still has the table."""
        [found] = await self._session.backend.run(Statement(_IS_THERE, (str(self.relid),)))
        return bool(found.rows)

    async def write(self) -> None:
        """Rewrite outstanding files, which takes long with many rows."""
        if not self._staged:
            await self._session.backend.run(catalog_calls.hold_off_compaction(self.relid))
        await until_little_is_left(self._write_new if self._staged else self._columns.catch_up)

    async def _write_new(self) -> None:
        await self._write_added(await self._published())

    async def stage(self) -> None:
        """Replace all files that the transaction sees by new ones."""
        await self._columns.publish()
        if self._before is None:
            self._at_first = {file.path: await self._lost(file) for file in await self._published()}
        else:  # its files do not include later commits of others
            self._at_first = self._before.known
        self._merged, self._staged = dict(self._at_first), True

    def rolled_back(self) -> None:
        """The transaction went back to a savepoint: merged changes may not be staged any more."""
        self._reverted = (
            self._reverted
            or self._merged.keys() != self._at_first.keys()
            or any(len(lost) != len(self._at_first[path]) for path, lost in self._merged.items())
        )

    @property
    def known(self) -> dict[str, npt.NDArray[np.int64]]:
        """The commits of others that the staged files include."""
        return self._at_first if self._reverted else self._merged

    async def _write_added(self, published: Sequence[DataFile]) -> list[tuple[DataFile, Rewritten]]:
        """Rewrite files that others have added; deleted rows are included."""
        added = [file for file in published if file.path not in self.known]
        return list(zip(added, await self.write_anew(added), strict=True))

    async def write_anew(self, added: Sequence[DataFile]) -> list[Rewritten]:
        """Rewrite these published files, one by one."""
        sources = added
        if self._before is not None:
            made = zip(added, await self._before.write_anew(added), strict=True)
            sources = [await self._source(new, of) for new, of in by_new_file(made)]
        try:
            await self._columns.catch_up(sources)
        finally:
            self._session.transaction.written.update(self._columns.written)
        return [each for each in (self.became(file.path) for file in added) if each is not None]

    async def _source(self, new: DataFile, published: Sequence[tuple[DataFile, int]]) -> DataFile:
        """Published files as the Rewriting before has rewritten them, without their deleted rows."""
        if new.path in self._columns.completed:
            return new
        lost = await self._lost_since(new, published)
        return replace(new, delete_file=(await self._deletion(new, None, lost)).file) if len(lost) else new

    def became(self, path: str) -> Rewritten | None:
        """The new file for a published one."""
        if self._before is None:
            return self._columns.completed.get(path)
        source = self._before.became(path)
        if source is None or (found := self._columns.completed.get(source.file.path)) is None:
            return None
        return Rewritten(found.file, found.first + source.first)

    async def merge(self) -> None:
        """Stage the later changes of others. Raises 40001 if they conflict with the transaction's own, 23505 or 23503
        if their rows violate a constraint together.
        """
        session = self._session
        published = await self._published()
        fresh = await self._write_added(published)
        lost, known = {file.path: await self._lost(file) for file in published}, self.known
        if not known.keys() <= lost.keys():
            raise _changed_meanwhile()  # TRUNCATE, or a file without rows left
        gone = {path: np.setdiff1d(lost[path], positions) for path, positions in known.items()}
        if not fresh and not any(len(positions) for positions in gone.values()):
            return
        change = await staged(session, self.relid)
        deleted = {deletion.data_path: deletion for deletion in change.deleted}
        for file, positions in self._gone(gone, {file.path for file in change.data_files}):
            deleted[file.path] = await self._deletion(file, deleted.get(file.path), positions)
        await session.transaction.stage(RowChange(self.relid, change.data_files, [*deleted.values()], truncate=True))
        if fresh:
            files = by_new_file(fresh)
            dead = [(new, await self._lost_since(new, sources)) for new, sources in files]
            deletions = [await self._deletion(new, None, positions) for new, positions in dead if len(positions)]
            added = RowChange(self.relid, [new for new, _ in files], deletions)
            table = (await latest(session, self.relid)).table
            await refuse_duplicates(session, table, added)
            await refuse_excluded(session, table, added)
            await refuse_missing(session, table, added)
            await session.transaction.stage(added)
        self._merged, self._reverted = lost, False

    def _gone(
        self, gone: Mapping[str, npt.NDArray[np.int64]], staged_paths: Collection[str]
    ) -> list[tuple[DataFile, npt.NDArray[np.int64]]]:
        """The places in new files of rows that were deleted from published ones."""
        found: dict[str, tuple[DataFile, list[npt.NDArray[np.int64]]]] = {}
        for path, positions in gone.items():
            if len(positions):
                became = self.became(path)
                if became is None or became.file.path not in staged_paths:
                    raise _changed_meanwhile()
                found.setdefault(became.file.path, (became.file, []))[1].append(became.first + positions)
        return [(file, np.concatenate(each)) for file, each in found.values()]

    async def _deletion(self, new: DataFile, own: Deletion | None, gone: npt.NDArray[np.int64]) -> Deletion:
        """The delete file of a new file: these positions, and the rows that the transaction has deleted itself."""
        path, table = self._session.gateway.data_path, self._columns.new
        before = None if own is None else own.file
        file = await asyncio.to_thread(with_deletions, path, table, new, before, gone)
        if file is None:
            raise _changed_meanwhile()
        self._session.transaction.written.add(table.path + file.path)
        return Deletion(new.path, None, file)

    async def _published(self) -> Sequence[DataFile]:
        """The published files at present."""
        found = await self._session.gateway.store.versions([self.relid])
        if self.relid not in found:
            raise _changed_meanwhile()
        return () if self._emptied else found[self.relid].files

    async def _lost_since(self, new: DataFile, sources: Sequence[tuple[DataFile, int]]) -> npt.NDArray[np.int64]:
        return await asyncio.to_thread(lost_since, self._session.gateway.data_path, self._columns.old, new, sources)

    async def _lost(self, file: DataFile) -> npt.NDArray[np.int64]:
        return await asyncio.to_thread(lost_positions, self._session.gateway.data_path, self._columns.old, file)


def _changed_meanwhile() -> SluiceError:
    return SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
