"""PRIMARY KEY and UNIQUE: no two live rows of the lake have one key, whatever way they came in.

A statement's new rows are in files already, which nobody sees yet. Their keys are claimed, so that another transaction
that writes one of them waits, as at a unique index; then they are looked up among what is committed by now and what the
transaction itself has. Bulk is not claimed: whatever was committed to the table after the look is looked at again at
COMMIT, when the table is locked (`Transaction.validate`). Deferred constraints are looked at then only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from catalog.constraints import Key
from catalog.errors import SluiceError, SqlState
from catalog.model import Table, TableVersion
from catalog.publish import RowChange
from gateway.lake.claims import CLAIMS_MAX, claim_keys
from gateway.lake.row_locks import Strength, lock_rows
from gateway.transaction import Validation
from gateway.values import OutputSettings
from gateway.values.text import text_cells
from gateway.visibility import Current, current
from storage.keys import Duplicate, KeyChunk, LiveFile, duplicate, key_chunks

if TYPE_CHECKING:
    from gateway.exchange import Exchange


async def keep_keys(
    session: Exchange, table: Table, change: RowChange, assigned: Collection[int] | None, deferred: Collection[int]
) -> None:
    """Raise 23505 where the change, which is not staged yet, breaks a key of the table.

    `assigned` are the columns that the statement has set (None: all); `deferred` are the constraints, by OID, to be
    looked at when the transaction commits.
    """
    keys = [key for key in table.keys if assigned is None or not set(key.attnums).isdisjoint(assigned)]
    if not keys or not change.data_files:
        return
    soon = [key for key in keys if key.oid not in deferred]
    new = [LiveFile(file) for file in change.data_files]
    small = sum(file.record_count for file in change.data_files) <= CLAIMS_MAX
    chunks: dict[Key, list[KeyChunk]] = {}
    if small and soon:
        chunks = await asyncio.to_thread(lambda: {key: list(_chunks(session, table, key, new)) for key in soon})
        for key, found in chunks.items():
            for chunk in found:
                await claim_keys(session, key.oid, chunk.keys)
    now = await current(session, table.oid, change)
    for key in soon:
        now = await _check(session, key, change, now, chunks.get(key))
    for key in keys:
        late = key not in soon
        seen = frozenset[int | None]() if late else now.published

        async def again(key: Key = key, seen: Collection[int | None] = seen) -> None:
            await _validate(session, table.oid, key, seen)

        session.transaction.validate(table.oid, Validation(key.oid, -1 if late else now.snapshot, again, whole=True))


def _chunks(session: Exchange, table: Table, key: Key, new: Sequence[LiveFile]) -> Iterator[KeyChunk]:
    """Blocking."""
    columns = [table.column(attnum) for attnum in key.attnums]
    return key_chunks(session.gateway.data_path, table, new, columns, nulls_distinct=key.nulls_distinct)


async def _check(
    session: Exchange, key: Key, change: RowChange, now: Current, chunks: Sequence[KeyChunk] | None
) -> Current:
    """Raise 23505 for a duplicate; one in a row that somebody is about to delete is waited for."""
    own = {file.path for file in change.data_files}
    waited: set[tuple[int, int]] = set()
    while True:
        new = [each for each in now.files if each.file.path in own]
        others = [each for each in now.files if each.file.path not in own]
        found = await _duplicate(session, now.table, key, new, others, chunks)
        if found is None:
            return now
        if found.file is None or found.file.data_file_id is None:
            raise unique_violation(now.table, key, found.columns)
        place = (found.file.data_file_id, found.position)
        if place in waited:
            raise unique_violation(now.table, key, found.columns)
        waited.add(place)
        version = TableVersion(now.table, now.snapshot, ())
        file, position = (np.array([each]) for each in place)
        await lock_rows(session, version, file, position, Strength.KEY_SHARE)
        now = await current(session, now.table.oid, change)


async def _validate(session: Exchange, oid: int, key: Key, seen: Collection[int | None]) -> None:
    """The transaction's own rows, against those committed by others that it has not seen yet."""
    now = await current(session, oid, None)
    own = [each for each in now.files if each.file.data_file_id is None]
    others = [each for each in now.files if each.file.data_file_id is not None and each.file.data_file_id not in seen]
    if key in now.table.keys:
        found = await _duplicate(session, now.table, key, own, others)
        if found is not None:
            raise unique_violation(now.table, key, found.columns)


async def _duplicate(  # noqa: PLR0917
    session: Exchange,
    table: Table,
    key: Key,
    new: Sequence[LiveFile],
    others: Sequence[LiveFile],
    chunks: Iterable[KeyChunk] | None = None,
) -> Duplicate | None:
    """The first new row with a key that is there; `chunks` are the keys of the new rows, where they are at hand."""

    def look() -> Duplicate | None:
        columns = [table.column(attnum) for attnum in key.attnums]
        keys = chunks if chunks is not None else _chunks(session, table, key, new)
        path = session.gateway.data_path
        return duplicate(path, table, columns, keys, new, others, nulls_distinct=key.nulls_distinct)

    return await asyncio.to_thread(look)


def unique_violation(table: Table, key: Key, row: pa.RecordBatch) -> SluiceError:
    """PostgreSQL's error for a key that is there already."""
    return SluiceError(
        SqlState.UNIQUE_VIOLATION,
        f'duplicate key value violates unique constraint "{key.name}"',
        detail=f"Key {described_key(table, key.attnums, row)} already exists.",
        schema=table.schema,
        table=table.name,
        constraint=key.name,
    )


def described_key(table: Table, attnums: Sequence[int], row: pa.RecordBatch) -> str:
    """A key as PostgreSQL's details spell it: `(a, b)=(1, x)`; `row` has its columns, in one row."""
    columns = [table.column(attnum) for attnum in attnums]
    settings = OutputSettings()
    texts = [
        "null" if array.null_count else text_cells(array, column.type_oid, settings)[0].as_py().decode()
        for column, array in zip(columns, row.columns, strict=True)
    ]
    return f"({', '.join(column.name for column in columns)})=({', '.join(texts)})"
