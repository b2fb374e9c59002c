"""FOREIGN KEY, the referencing side: checks that keys of new rows exist, and locks the referenced rows.

These are locked FOR KEY SHARE, as in PostgreSQL. So a new reference waits for an uncommitted deletion of its key, and
a deletion for an uncommitted reference. Very many rows are not locked; then the transaction that commits second finds
the conflict, when both tables are locked (`Transaction.validate`). A replaced row leaves its locks behind, so its key
is locked too. Source: PostgreSQL's ri_triggers.c.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import ForeignKey
from catalog.errors import SluiceError, SqlState
from catalog.model import Table
from catalog.publish import RowChange
from gateway.execution.constraints.unique_check import described_key
from gateway.execution.locks.row_locks import ROWS_MAX, changed_meanwhile, file_number, lock_referenced
from gateway.execution.reading.error_privileges import discreet
from gateway.session.pending_constraints import is_pending
from gateway.session.visibility import Current, current
from gateway.transaction.isolation_level import Isolation
from gateway.transaction.validation import Validation
from storage.indexes.keys import LiveFile, bounds_of, distinct, find, key_chunks

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


def checked_of(
    session: SessionContext, foreign_keys: Sequence[ForeignKey], change: RowChange, assigned: Collection[int] | None
) -> list[ForeignKey]:
    """The foreign keys for which rows of the change are to be checked; `assigned` is that of `keep_references`."""
    unchanged = session.transaction.unchanged
    return [
        each
        for each in foreign_keys
        if (assigned is None or not set(each.attnums).isdisjoint(assigned))
        and not unchanged.are_all(change.data_files, each.attnums)
    ]


async def keep_references(
    session: SessionContext,
    table: Table,
    change: RowChange,
    assigned: Collection[int] | None,
    deferred: Collection[int],
    *,
    staged: bool = False,
) -> None:
    """Raise 23503 if new rows of the change reference missing keys. Rows of a `staged` change that are deleted since
    do not count, nor do rows whose references are unchanged (`Transaction.unchanged`).

    `assigned` are the columns that the statement has set (None: all); `deferred` are the constraints, by OID, to check
    at COMMIT.
    """
    for foreign_key in table.foreign_keys:
        if not checked_of(session, [foreign_key], change, assigned):
            continue
        late, snapshot = foreign_key.oid in deferred, -1
        if not late:
            new = [LiveFile(file) for file in change.data_files]
            if staged:
                new = _of(await current(session, table.oid, None), change)
            pending = change if foreign_key.parent == table.oid and not staged else None
            snapshot = await _hold(session, table, foreign_key, new, pending)

        async def before(foreign_key: ForeignKey = foreign_key) -> None:
            child = await current(session, foreign_key.child, None)
            kept = _as_it_is(child.table, foreign_key)
            if kept is None:
                return
            try:
                await _hold(session, child.table, kept, _own(child), None)
            except SluiceError as error:
                if error.sqlstate == SqlState.FOREIGN_KEY_VIOLATION:
                    await _tell_of_removal(session, foreign_key)
                raise

        async def again(foreign_key: ForeignKey = foreign_key) -> None:
            child = await current(session, foreign_key.child, None)
            kept = _as_it_is(child.table, foreign_key)
            if kept is None:
                return
            parent = await current(session, foreign_key.parent, None)
            left_out = session.transaction.unchanged.of(kept.attnums)
            looked = await asyncio.to_thread(
                _look_up, session.gateway.data_path, child.table, kept, _own(child), parent, left_out
            )
            if looked.missing is not None:
                raise await _not_present(session, child.table, kept, parent.table, looked.missing)

        validation = Validation(
            foreign_key.oid, snapshot, again, whole=True, before=before if late else None, name=foreign_key.name
        )
        session.transaction.validate(foreign_key.parent, validation)


async def _tell_of_removal(session: SessionContext, foreign_key: ForeignKey) -> None:
    """Raise the error of the removed key, if SET CONSTRAINTS has found the references right before: for PostgreSQL,
    only the removal is still to be checked.
    """
    if not await is_pending(session, foreign_key.oid, foreign_key.child):
        await session.transaction.check_deferred(foreign_key.child, foreign_key.oid)


def _as_it_is(child: Table, foreign_key: ForeignKey) -> ForeignKey | None:
    """The table's foreign key at present: the transaction may have renamed it, or dropped it (None)."""
    demanded = (foreign_key.attnums, foreign_key.parent, foreign_key.parent_attnums)
    alike = (each for each in child.foreign_keys if (each.attnums, each.parent, each.parent_attnums) == demanded)
    return next(alike, None)


async def refuse_missing(session: SessionContext, table: Table, added: RowChange) -> None:
    """Raise 23503 if committed rows of others, which the transaction merges into its own table, reference keys that it
    has deleted. They are not staged yet.
    """
    now = await current(session, table.oid, added)
    new = _of(now, added)
    for foreign_key in table.foreign_keys:
        parent = now if foreign_key.parent == table.oid else await current(session, foreign_key.parent, None)
        looked = await asyncio.to_thread(_look_up, session.gateway.data_path, table, foreign_key, new, parent, {})
        if looked.missing is not None:
            raise await _not_present(session, table, foreign_key, parent.table, looked.missing)


def _of(table: Current, change: RowChange) -> list[LiveFile]:
    """The files that a change has added, with their deleted rows at present."""
    paths = {file.path for file in change.data_files}
    return [each for each in table.files if each.file.path in paths]


def _own(table: Current) -> list[LiveFile]:
    """The transaction's own files."""
    return [each for each in table.files if each.file.data_file_id is None]


async def _hold(
    session: SessionContext, table: Table, foreign_key: ForeignKey, new: Sequence[LiveFile], pending: RowChange | None
) -> int:
    """Look up the keys that new rows reference, and lock them. Returns the last snapshot that had changed the other
    table then.

    Above READ COMMITTED, a row that others have deleted since the transaction's snapshot raises 40001.
    """
    transaction, data_path = session.transaction, session.gateway.data_path
    parent = await current(session, foreign_key.parent, pending, at=await transaction.visible_snapshot(()))
    held, left_out = np.empty((2, 0), np.int64), transaction.unchanged.of(foreign_key.attnums)
    again = False
    while True:
        looked = await asyncio.to_thread(_look_up, data_path, table, foreign_key, new, parent, left_out)
        if looked.missing is not None:
            if again and transaction.isolation is not Isolation.READ_COMMITTED:
                raise changed_meanwhile()
            raise await _not_present(session, table, foreign_key, parent.table, looked.missing)
        rows = np.unique(np.concatenate((held, looked.rows), axis=1), axis=1)
        if rows.shape[1] in (held.shape[1], 0) or rows.shape[1] > ROWS_MAX:
            return parent.snapshot
        keys = looked.keys
        if not await lock_referenced(session, parent.table, rows[0], rows[1], foreign_key, keys, parent.snapshot):
            return parent.snapshot
        parent, held, again = await current(session, foreign_key.parent, pending), rows, True


@dataclass(frozen=True, slots=True)
class _Looked:
    """The first row without a referenced row (its key's columns), and the published referenced rows: their data files'
    numbers, positions and keys, in any order. Above `ROWS_MAX` rows, these are incomplete.
    """

    missing: pa.RecordBatch | None
    rows: npt.NDArray[np.int64]
    keys: pa.Array


def _look_up(  # noqa: PLR0917
    data_path: str,
    table: Table,
    foreign_key: ForeignKey,
    new: Sequence[LiveFile],
    parent: Current,
    left_out: Mapping[str, npt.NDArray[np.int64]],
) -> _Looked:
    """Blocking."""
    columns = [table.column(attnum) for attnum in foreign_key.attnums]
    parents = [parent.table.column(attnum) for attnum in foreign_key.parent_attnums]
    rows, keys = np.empty((2, 0), np.int64), pa.array([], pa.binary())
    for chunk in key_chunks(data_path, table, new, columns, nulls_distinct=True, left_out=left_out):
        values, places = distinct(chunk.keys)
        bounds = bounds_of(columns, parents, chunk.columns.columns)
        found = find(data_path, parent.table, parents, parent.files, values, bounds)
        missing = np.setdiff1d(np.arange(len(values)), found.wanted)
        if len(missing):
            return _Looked(chunk.columns.slice(int(places[missing].min()), 1), rows, keys)
        if rows.shape[1] <= ROWS_MAX:
            # Other sessions cannot see the transaction's own rows.
            numbers = [-1 if each.file.data_file_id is None else file_number(each.file.path) for each in found.files]
            here = np.stack((np.array(numbers, np.int64)[found.file_numbers], found.positions))
            published = here[0] >= 0
            rows = np.unique(np.concatenate((rows, here[:, published]), axis=1), axis=1)
            keys = pa.concat_arrays([keys, values.take(pa.array(found.wanted[published]))]).unique()
    return _Looked(None, rows, keys)


async def _not_present(
    session: SessionContext, table: Table, foreign_key: ForeignKey, parent: Table, row: pa.RecordBatch
) -> SluiceError:
    key = await described_key(session, table, foreign_key.attnums, row)
    error = SluiceError(
        SqlState.FOREIGN_KEY_VIOLATION,
        f'insert or update on table "{table.name}" violates foreign key constraint "{foreign_key.name}"',
        detail=f'Key {key} is not present in table "{parent.name}".',
        schema=table.schema,
        table=table.name,
        constraint=foreign_key.name,
    )
    return await discreet(session, error, table, foreign_key.attnums, f'Key is not present in table "{parent.name}".')
