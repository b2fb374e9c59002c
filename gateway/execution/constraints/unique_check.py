"""PRIMARY KEY and UNIQUE: checks that no two live rows of the lake have the same key.

A statement's new rows are already in unpublished files. Their keys are claimed, so that another transaction with one
of them waits, as at a unique index. Then they are looked up in committed rows and in the transaction's own. Bulk
changes claim nothing: COMMIT looks up again what was committed to the table since, when the table is locked
(`Transaction.validate`). Deferred constraints are checked only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import Key
from catalog.errors import SluiceError, SqlState
from catalog.indexes import ComputedKey
from catalog.model import Column, DataFile, Table
from catalog.publish import RowChange
from gateway.backend.arrays import text_array
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.expression_keys import columns_of, given_keys
from gateway.execution.locks.key_claims import CLAIMS_MAX, claim_keys
from gateway.execution.locks.row_locks import Strength, file_number, lock_rows
from gateway.execution.reading.error_privileges import WHOLE_TABLE, discreet
from gateway.execution.reading.plan_context import output_settings, session_values
from gateway.session.visibility import Current, current
from gateway.transaction.validation import Validation
from gateway.values.text import text_cells
from storage.indexes.keys import (
    Duplicate,
    Given,
    KeyChunk,
    LiveFile,
    bounds_of,
    duplicate,
    find,
    is_at_hand,
    key_chunks,
    keys_of,
)

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# New keys of so many bytes are looked up without a thread, if no file is opened for them.
_BYTES_AT_ONCE: Final = 16 * 1024
_QUOTED: Final = "SELECT pg_catalog.quote_ident(n) FROM pg_catalog.unnest($1::pg_catalog.text[]) n"


async def keep_keys(
    session: SessionContext,
    table: Table,
    change: RowChange,
    assigned: Collection[int] | None,
    deferred: Collection[int],
) -> None:
    """Raise 23505 if the change, which is not staged yet, violates a key of the table.

    `assigned` are the columns that the statement has set (None: all); `deferred` are the constraints, by OID, to check
    at COMMIT.
    """
    keys: list[Key | ComputedKey] = [
        *(key for key in table.keys if assigned is None or not set(key.attnums).isdisjoint(assigned)),
        *(key for key in table.computed_keys if assigned is None or not key.form.attnums.isdisjoint(assigned)),
    ]
    if not keys or not change.data_files:
        return
    if table.materialized:
        keys.sort(key=lambda key: key.oid)  # in the order in which PostgreSQL rebuilds the indexes
    soon = [key for key in keys if key.oid not in deferred]
    new = [LiveFile(file) for file in change.data_files]
    small = sum(file.record_count for file in change.data_files) <= CLAIMS_MAX
    chunks: dict[int, list[KeyChunk]] = {}
    newest = None
    if small and soon:
        given = {key.oid: await given_keys(session, table, key, new) for key in soon}

        def read() -> dict[int, list[KeyChunk]]:
            return {key.oid: list(_chunks(session, table, key, new, given[key.oid])) for key in soon}

        chunks = read() if is_at_hand(table, new, ()) else await asyncio.to_thread(read)
        claimed = [(oid, chunk.keys) for oid, found in chunks.items() for chunk in found]
        newest = await claim_keys(session, table, claimed)
    now = await current(session, table.oid, change, newest=newest)
    for key in soon:
        now = await _check(session, key, change, now, chunks.get(key.oid))
    for key in keys:
        late = key not in soon
        seen = frozenset[int | None]() if late else now.published

        async def again(key: Key | ComputedKey = key, seen: Collection[int | None] = seen) -> None:
            await _validate(session, table.oid, key, seen)

        snapshot = -1 if late else now.snapshot
        session.transaction.validate(table.oid, Validation(key.oid, snapshot, again, whole=True, name=key.name))


async def refuse_duplicates(session: SessionContext, table: Table, added: RowChange) -> None:
    """Raise 23505 if committed rows of others, which the transaction merges into its own table, have an existing key.
    They are not staged yet.
    """
    now, paths = await current(session, table.oid, added), {file.path for file in added.data_files}
    new = [each for each in now.files if each.file.path in paths]
    others = [each for each in now.files if each.file.path not in paths]
    keys: list[Key | ComputedKey] = [*table.keys, *table.computed_keys]
    for key in keys:
        found = await _duplicate(session, table, key, new, others)
        if found is not None:
            raise await _duplicate_key(session, table, key, found.columns, repeated=False)


def _chunks(
    session: SessionContext, table: Table, key: Key | ComputedKey, new: Sequence[LiveFile], given: Given | None
) -> Iterator[KeyChunk]:
    """Blocking."""
    columns = columns_of(table, key)
    return key_chunks(session.gateway.data_path, table, new, columns, nulls_distinct=key.nulls_distinct, given=given)


async def _check(
    session: SessionContext, key: Key | ComputedKey, change: RowChange, now: Current, chunks: Sequence[KeyChunk] | None
) -> Current:
    """Raise 23505 for a duplicate; wait for a transaction that is about to delete the existing row."""
    own = {file.path for file in change.data_files}
    waited: set[tuple[int, int]] = set()
    while True:
        new = [each for each in now.files if each.file.path in own]
        others = [each for each in now.files if each.file.path not in own]
        found = await _duplicate(session, now.table, key, new, others, chunks)
        if found is None:
            return now
        if found.file is None or found.file.data_file_id is None:
            raise await _duplicate_key(session, now.table, key, found.columns, repeated=found.file is None)
        place = (found.file.data_file_id, found.position)
        if place in waited:
            raise await _taken(session, now.table, key, found)
        waited.add(place)
        file, position = np.array([file_number(found.file.path)]), np.array([found.position])
        await lock_rows(session, now.table, file, position, Strength.KEY_SHARE)
        now = await current(session, now.table.oid, change)


async def _taken(session: SessionContext, table: Table, key: Key | ComputedKey, found: Duplicate) -> SluiceError:
    """The error for an existing key. In SERIALIZABLE, a transaction that had looked for the key before another
    committed it gets PostgreSQL's serialization failure.
    """
    published = None if found.file is None else found.file.data_file_id
    if published is not None and await session.transaction.unseen(table.oid, published):
        return SluiceError(
            SqlState.SERIALIZATION_FAILURE,
            "could not serialize access due to read/write dependencies among transactions",
            hint="The transaction might succeed if retried.",
        )
    return await _duplicate_key(session, table, key, found.columns, repeated=False)


async def _duplicate_key(
    session: SessionContext, table: Table, key: Key | ComputedKey, row: pa.RecordBatch, *, repeated: bool
) -> DuplicateKeyError:
    attnums = key.attnums if isinstance(key, Key) else (WHOLE_TABLE,)
    columns = columns_of(table, key)
    labels = key.labels if isinstance(key, ComputedKey) else await _as_indexed(session, columns)
    described = await _described(session, columns, row, labels)
    return await discreet(session, DuplicateKeyError(table, key, row, described, repeated=repeated), table, attnums)


async def _validate(session: SessionContext, oid: int, key: Key | ComputedKey, seen: Collection[int | None]) -> None:
    """Check the transaction's own rows against rows that others have committed since."""
    now = await current(session, oid, None)
    own = [each for each in now.files if each.file.data_file_id is None]
    others = [each for each in now.files if each.file.data_file_id is not None and each.file.data_file_id not in seen]
    if isinstance(key, Key):
        still = any(key.is_over(each) for each in now.table.keys)
    else:
        still = any(key.is_over(each) for each in now.table.computed_keys)
    if still:
        found = await _duplicate(session, now.table, key, own, others)
        if found is not None:
            raise await _taken(session, now.table, key, found)


async def _duplicate(  # noqa: PLR0917
    session: SessionContext,
    table: Table,
    key: Key | ComputedKey,
    new: Sequence[LiveFile],
    others: Sequence[LiveFile],
    chunks: Sequence[KeyChunk] | None = None,
) -> Duplicate | None:
    """The first new row with an existing key; `chunks` are the new rows' keys, if computed."""
    given = await given_keys(session, table, key, [*new, *others])
    columns = columns_of(table, key)

    def look() -> Duplicate | None:
        keys = chunks if chunks is not None else _chunks(session, table, key, new, given)
        path = session.gateway.data_path
        return duplicate(path, table, columns, keys, new, others, nulls_distinct=key.nulls_distinct, given=given)

    if chunks is not None and given is None and len(chunks) == 1 and chunks[0].keys.nbytes <= _BYTES_AT_ONCE:
        bounds = bounds_of(columns, columns, chunks[0].columns.columns)
        if is_at_hand(table, others, bounds):
            return look()
    return await asyncio.to_thread(look)


def duplicate_message(name: str, *, exclusion: bool) -> str:
    """PostgreSQL's message for a new row with the key of another one."""
    if exclusion:
        return f'conflicting key value violates exclusion constraint "{name}"'
    return f'duplicate key value violates unique constraint "{name}"'


class DuplicateKeyError(SluiceError):
    """PostgreSQL's error for an existing key, with it `described`; `row` has its columns. `repeated`: two new rows have
    it.
    """

    def __init__(
        self, table: Table, key: Key | ComputedKey, row: pa.RecordBatch, described: str, *, repeated: bool
    ) -> None:
        excludes = isinstance(key, Key) and key.exclusion
        super().__init__(
            SqlState.EXCLUSION_VIOLATION if excludes else SqlState.UNIQUE_VIOLATION,
            duplicate_message(key.name, exclusion=excludes),
            detail=f"Key {described} {f'conflicts with existing key {described}' if excludes else 'already exists'}.",
            schema=table.schema,
            table=table.name,
            constraint=key.name,
        )
        self._key = key
        self._row = row
        self._repeated = repeated
        self._described = described

    def of_index(self) -> SluiceError:
        """PostgreSQL's error for the same when it builds an index over existing rows."""
        return SluiceError(
            SqlState.UNIQUE_VIOLATION,
            f'could not create unique index "{self._key.name}"',
            detail=f"Key {self._described} is duplicated.",
            schema=self.fields["s"],
            table=self.fields["t"],
            constraint=self._key.name,
        )

    async def place(
        self,
        session: SessionContext,
        table: Table,
        files: Sequence[DataFile],
        order: npt.NDArray[np.int64] | None = None,
    ) -> int | None:
        """The number, from 0, of the duplicate row among the rows of new files, or, if these were sorted, among the
        rows as they came (`storage.parquet.parquet_writer`). None if that is not known."""
        given = await given_keys(session, table, self._key, [LiveFile(file) for file in files])
        rows = await asyncio.to_thread(self._places, session.gateway.data_path, table, files, given)
        if order is not None:
            if rows.max() >= len(order):
                return None
            rows = order[rows]
        return int(np.sort(rows)[int(self._repeated)])

    def _places(
        self, data_path: str, table: Table, files: Sequence[DataFile], given: Given | None
    ) -> npt.NDArray[np.int64]:
        columns = columns_of(table, self._key)
        nulls_distinct = self._key.nulls_distinct
        wanted = keys_of(columns, self._row.columns, nulls_distinct=nulls_distinct)
        bounds = bounds_of(columns, columns, self._row.columns) if given is None else []
        live = [LiveFile(file) for file in files]
        found = find(data_path, table, columns, live, wanted, bounds, nulls_distinct=nulls_distinct, given=given)
        ends = np.cumsum([file.record_count for file in files])
        firsts = {file.path: end - file.record_count for file, end in zip(files, ends, strict=True)}
        starts = np.array([firsts[each.file.path] for each in found.files], np.int64)
        rows: npt.NDArray[np.int64] = starts[found.file_numbers] + found.positions
        return rows


async def _as_indexed(session: SessionContext, columns: Sequence[Column]) -> list[str]:
    """The columns' names as an index's definition has them: in quotes where they need them."""
    [answer] = await session.backend.run(Statement(_QUOTED, (text_array(column.name for column in columns),)))
    return [bytes(name or b"").decode() for (name,) in answer.rows]


async def described_key(session: SessionContext, table: Table, attnums: Sequence[int], row: pa.RecordBatch) -> str:
    """A key as details of foreign keys write it, with the session's settings: `(a, b)=(1, x)`, never with quotes around
    names; `row` has its columns, in one row."""
    columns = [table.column(attnum) for attnum in attnums]
    return await _described(session, columns, row, [column.name for column in columns])


async def _described(
    session: SessionContext, columns: Sequence[Column], row: pa.RecordBatch, labels: Sequence[str]
) -> str:
    values, _ = await session_values(session)
    settings = output_settings(values)
    texts = [
        "null" if array.null_count else text_cells(array, column.type_oid, settings)[0].as_py().decode()
        for column, array in zip(columns, row.columns, strict=True)
    ]
    return f"({', '.join(labels)})=({', '.join(texts)})"
