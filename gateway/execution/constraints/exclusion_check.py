"""EXCLUDE constraints that forbid other pairs of rows than equal ones.

A statement's new rows are already in unpublished files. Before they are looked at, the transaction claims the
constraint as a whole: others that write rows of the table wait for its end, conflict or not, and then see the rows.
Before COMMIT it claims the constraint again, since the end of a window (gateway/transaction/transactional_ddl.py) may
have released it, and looks again if others have changed the table. Deferred constraints are looked at only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import Exclusion
from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, Table, TableVersion
from catalog.publish import RowChange
from gateway.execution.constraints.exclusion_rows import (
    deciding,
    described,
    read_standing,
    searching,
    standing_aside,
)
from gateway.execution.constraints.unique_check import duplicate_message
from gateway.execution.locks.awaited_changes import others_change
from gateway.execution.locks.key_claims import claim_keys
from gateway.execution.locks.row_locks import untouched
from gateway.execution.reading.error_privileges import discreet
from gateway.session.visibility import Current, current
from gateway.transaction.validation import Validation
from storage.indexes.keys import LiveFile, live_files
from storage.parquet.arrow_types import arrow_type

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Its key, of which a writer claims no part alone.
_WHOLE: Final = pa.array([b""], pa.binary())


async def keep_exclusions(
    session: SessionContext,
    table: Table,
    change: RowChange,
    assigned: Collection[int] | None,
    deferred: Collection[int],
) -> None:
    """Raise 23P01 if the change, which is not staged yet, violates an EXCLUDE constraint of the table.

    `assigned` are the columns that the statement has set (None: all); `deferred` are the constraints, by OID, to check
    at COMMIT.
    """
    if not change.data_files:
        return
    for exclusion in table.exclusions:
        if assigned is not None and set(exclusion.attnums).isdisjoint(assigned):
            continue
        snapshot = -1
        if exclusion.oid not in deferred:
            await claim_exclusion(session, table, exclusion)
            snapshot = await _check(session, table.oid, exclusion, change)
        _look_before_commit(session, table, exclusion, snapshot)


async def claim_exclusion(session: SessionContext, table: Table, exclusion: Exclusion) -> None:
    """Wait for other transactions that write rows under the constraint, and let later ones wait."""
    await claim_keys(session, table, [(exclusion.oid, _WHOLE)])


def _look_before_commit(session: SessionContext, table: Table, exclusion: Exclusion, snapshot: int) -> None:
    """Check the transaction's rows before COMMIT if the table has changed since the snapshot; with -1, for a deferred
    constraint, in any case, and when SET CONSTRAINTS wants it."""

    async def look() -> None:
        await claim_exclusion(session, table, exclusion)
        if (await current(session, table.oid, None)).snapshot > snapshot:
            await _check(session, table.oid, exclusion, None)

    async def again() -> None:
        """Nothing: it has looked just before, and holds the claim."""

    validation = Validation(exclusion.oid, snapshot, again, whole=True, before=look, name=exclusion.name)
    session.transaction.validate(table.oid, validation)


async def refuse_excluded(session: SessionContext, table: Table, added: RowChange) -> None:
    """Raise 23P01 if committed rows of others, which the transaction merges into its own table, conflict with others.
    They are not staged yet.
    """
    for exclusion in table.exclusions:
        await _check(session, table.oid, exclusion, added)


async def _check(session: SessionContext, oid: int, known: Exclusion, change: RowChange | None) -> int:
    """Raise 23P01 for a conflict of the change's rows, or of all of the transaction's; wait for a transaction that is
    about to delete the other row. Returns the last snapshot of the table.
    """
    async with session.transaction.deferred.opened():
        while True:
            now = await current(session, oid, change)
            # It may be made anew in each window, and dropped by others.
            exclusion = next(
                (each for each in now.table.exclusions if known.name == each.name or known.oid == each.oid), None
            )
            if exclusion is None:
                return now.snapshot
            new, others = _divided(now, change)
            found = await _first(session, now.table, exclusion, new, others)
            if found is None:
                return now.snapshot
            if not await _vanishes(session, now, found):
                raise await _violation(session, now.table, exclusion, found)


def _divided(now: Current, change: RowChange | None) -> tuple[list[LiveFile], list[LiveFile]]:
    """The files with the new rows, and the others."""
    if change is None:
        new = [each for each in now.files if each.file.data_file_id is None]
    else:
        own = {file.path for file in change.data_files}
        new = [each for each in now.files if each.file.path in own]
    return new, [each for each in now.files if each not in new]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A new row that conflicts with another, with its number; the other's place, unless it is new too."""

    fresh: pa.Table
    number: int
    other: pa.Table
    file: DataFile | None
    position: int


async def _first(
    session: SessionContext, table: Table, exclusion: Exclusion, new: Sequence[LiveFile], others: Sequence[LiveFile]
) -> Conflict | None:
    """The conflict of the first new row that has one."""
    columns = deciding(table, exclusion)
    rows = await _all_rows(session, table, exclusion, new)
    if not rows.num_rows:
        return None
    async with searching(session, table, exclusion, rows) as search:
        pair = await search.among() if rows.num_rows > 1 else None
        found = None if pair is None else Conflict(rows.slice(pair[0], 1), pair[0], rows.slice(pair[1], 1), None, 0)
        async for part in standing_aside(session, table, others, columns):
            pair = await search.first(part.rows)
            # PostgreSQL finds the rows that were there first.
            if pair is None or (found is not None and (pair[0], 0) >= (found.number, found.file is None)):
                continue
            number, there = pair
            file, position = others[int(part.files[there])].file, int(part.positions[there])
            found = Conflict(rows.slice(number, 1), number, part.rows.slice(there, 1), file, position)
    return found


async def _all_rows(session: SessionContext, table: Table, exclusion: Exclusion, files: Sequence[LiveFile]) -> pa.Table:
    """The rows of files, in the columns that decide."""
    columns = deciding(table, exclusion)
    schema = pa.schema([(column.name, arrow_type(column.form)) for column in columns])

    def read() -> pa.Table:
        parts = [part.rows for part in read_standing(session.gateway.data_path, table, files, columns)]
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()

    return await asyncio.to_thread(read)


async def _vanishes(session: SessionContext, now: Current, found: Conflict) -> bool:
    """Wait for a transaction that changes or deletes the other row; return whether it is gone."""
    if found.file is None or found.file.data_file_id is None:
        return False
    version = TableVersion(now.table, now.snapshot, tuple(each.file for each in now.files))
    rows: dict[str, npt.NDArray[np.int64]] = {found.file.path: np.array([found.position])}
    return await others_change(session, version, rows) or not await untouched(session, rows, version)


async def _violation(session: SessionContext, table: Table, exclusion: Exclusion, found: Conflict) -> ExclusionError:
    new, other = await described(session, table, exclusion, [found.fresh, found.other])
    error = ExclusionError(
        SqlState.EXCLUSION_VIOLATION,
        duplicate_message(exclusion.name, exclusion=True),
        detail=f"Key {new} conflicts with existing key {other}.",
        schema=table.schema,
        table=table.name,
        constraint=exclusion.name,
    )
    error.number = found.number
    return await discreet(session, error, table, exclusion.told, "Key conflicts with existing key.")


class ExclusionError(SluiceError):
    """PostgreSQL's error for a new row that conflicts with another one; `number` is that of the row among the new
    ones."""

    number: int

    def place(self, order: npt.NDArray[np.int64] | None) -> int | None:
        """The number of the row as the rows came; `order` is that of sorted ones. None if that is not known."""
        if order is None:
            return self.number
        return int(order[self.number]) if self.number < len(order) else None


async def existing_conflict(session: SessionContext, version: TableVersion, exclusion: Exclusion) -> list[str] | None:
    """The keys of two rows of a table that conflict, the first of all; None if none do."""
    live = live_files(version)
    rows = await _all_rows(session, version.table, exclusion, live)
    async with searching(session, version.table, exclusion, rows) as search:
        pair = await search.among(earliest=True)
    if pair is None:
        return None
    return await described(session, version.table, exclusion, [rows.slice(number, 1) for number in pair])


async def met_by(
    session: SessionContext, table: Table, fresh: pa.Table, live: Sequence[LiveFile]
) -> list[tuple[DataFile, npt.NDArray[np.int64]]]:
    """The places of rows in files with which these new rows conflict, by any EXCLUDE constraint."""
    found = []
    for exclusion in table.exclusions if fresh.num_rows else ():
        columns = deciding(table, exclusion)
        rows = fresh.select([column.name for column in columns]).combine_chunks()
        async with searching(session, table, exclusion, rows) as search:
            async for part in standing_aside(session, table, live, columns):
                there = np.array(await search.every(part.rows), np.int64)
                files, positions = part.files[there], part.positions[there]
                found += [(live[number].file, positions[files == number]) for number in np.unique(files)]
    return found
