"""Locks on lake rows, like PostgreSQL's row locks: held by the session's transaction until it ends.

A row is identified by its place in a data file. Rows written by the transaction itself are invisible to other
sessions, but an updated row keeps its predecessor's key locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.constraints import ForeignKey
from catalog.datatypes import BYTEA
from catalog.delete_history import deletions_of
from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, Table, TableVersion
from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.session.newest_versions import NewestVersions, newest_of
from gateway.transaction.isolation_level import Isolation
from gateway.transaction.transaction import Transaction
from gateway.values.binary import bigint_array, binary_array
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# A statement that locks more rows than this locks the table's rows as a whole.
ROWS_MAX: Final = 10_000
# In longer histories of deletions nobody looks for the kind of a change.
_HISTORY_MAX: Final = 256
# An integer[] in PostgreSQL's binary form: a header of five words (dimensions, nulls, type, size, lower bound), then
# each element after its length.
_HEAD_WORDS: Final = 5
# An element of a bigint[] in that form.
_BIGINT: Final = np.dtype([("length", ">i4"), ("value", ">i8")])

# Positions of rows, by the path of their data file.
Rows = Mapping[str, npt.NDArray[np.int64]]


class Strength(StrEnum):
    """PostgreSQL's row locks, weakest first."""

    KEY_SHARE = "KEY SHARE"
    SHARE = "SHARE"
    NO_KEY_UPDATE = "NO KEY UPDATE"
    UPDATE = "UPDATE"


class Waiting(StrEnum):
    """What to do about a row that another transaction has locked."""

    WAIT = ""
    SKIP = "SKIP LOCKED"
    FAIL = "NOWAIT"


@lru_cache(maxsize=4096)
def file_number(path: str) -> int:
    """The unique number of a data file in locks of its rows, made from its path below the table's folder."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest()) >> 1


def file_numbers(paths: pa.Array) -> npt.NDArray[np.int64]:
    """The number for each row, from the path of its file."""
    encoded = paths.dictionary_encode()
    numbers = np.array([file_number(path) for path in encoded.dictionary.to_pylist()], np.int64)
    of_rows: npt.NDArray[np.int64] = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return of_rows


async def lock_rows(  # noqa: PLR0917
    session: SessionContext,
    table: Table,
    files: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    strength: Strength,
    waiting: Waiting = Waiting.WAIT,
    newest: NewestVersions | None = None,
) -> npt.NDArray[np.bool_]:
    """Lock rows of a table, by their data files' numbers; which of them are locked. What others did to them until then
    is to be looked at: `newest` is asked in the same round trip."""
    try:
        if len(positions) > ROWS_MAX:
            async with session.transaction.deferred.stepping_out():
                [answer] = await session.backend.run(catalog_calls.lock_all_rows(table.oid, waiting))
            return np.full(len(positions), answer.rows[0][0] == b"t")
        lock = catalog_calls.lock_rows(table.oid, _arrays(files, positions), strength, waiting)
        numbers = await _put_and_lock(session, files, positions, lock, newest=newest)
    except SluiceError as error:
        if waiting is Waiting.FAIL and error.sqlstate == SqlState.LOCK_NOT_AVAILABLE:
            text = f'could not obtain lock on row in relation "{table.name}"'
            raise SluiceError(SqlState.LOCK_NOT_AVAILABLE, text) from error
        raise
    locked = np.zeros(len(positions), np.bool_)
    words = np.frombuffer(numbers, ">i4")
    locked[words[_HEAD_WORDS + 1 :: 2] - 1] = True
    return locked


def lockable_files(transaction: Transaction, files: Sequence[DataFile], strength: Strength) -> dict[str, int]:
    """The numbers of those files, by path, in which other transactions may have locked rows: in the transaction's own
    files, only keys.
    """
    following = transaction.following if strength is Strength.UPDATE else ()
    numbers = {file.path: file_number(file.path) for file in files if file.data_file_id is not None or following}
    own = {file.path for file in files if file.data_file_id is None}
    return {path: number for path, number in numbers.items() if path not in own or number in following}


def follow_rows(transaction: Transaction, sources: pa.Table, new_files: Sequence[DataFile]) -> None:
    """Rows of the new files have replaced rows that the transaction has locked, and have their keys: the holders of
    those key locks get the new rows' too, when the change is staged. `sources` is that of a `WriteResult`, with NULL
    for other new rows.
    """
    if not sources.num_rows or sources.num_rows > ROWS_MAX:
        return  # with more rows, no other transaction has a lock
    known = pc.is_valid(sources["position"]).to_numpy()
    old_files = file_numbers(pc.cast(sources["file"], pa.string()).combine_chunks().drop_null())
    counts = [file.record_count for file in new_files]
    numbers = np.repeat([file_number(file.path) for file in new_files], counts)
    places = np.concatenate(list(map(np.arange, counts)))
    old = _arrays(old_files, sources["position"].drop_null().to_numpy())
    transaction.with_stage.append(catalog_calls.move_row_locks(old, _arrays(numbers[known], places[known])))
    transaction.following.update(numbers.tolist())


async def lock_referenced(  # noqa: PLR0917
    session: SessionContext,
    table: Table,
    files: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    foreign_key: ForeignKey,
    keys: pa.Array,
    snapshot: int,
) -> bool:
    """Lock referenced rows: no other transaction may delete them, or change their keys, until this one ends.

    Returns whether other transactions have changed the table since `snapshot`, and so may have done that before.
    """
    arrays, encoded = _arrays(files, positions), binary_array(keys, BYTEA)
    lock = catalog_calls.lock_referenced(table.oid, arrays, foreign_key.oid, encoded, snapshot)
    return await _put_and_lock(session, files, positions, lock, foreign_key.oid, keys) == b"t"


async def lock_keys(session: SessionContext, table: Table, foreign_key: ForeignKey, keys: pa.Array) -> None:
    """Wait for transactions that reference keys which are being removed, and block new references."""
    if len(keys) > ROWS_MAX:
        return  # as many rows are locked by now: the table's rows as a whole
    lock = catalog_calls.lock_keys(table.oid, foreign_key.oid, binary_array(keys, BYTEA))
    nothing = np.empty(0, np.int64)
    await _put_and_lock(session, nothing, nothing, lock, foreign_key.oid, keys)


def _arrays(files: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> tuple[bytes, bytes]:
    return bigint_array(files), bigint_array(positions)


async def _put_and_lock(  # noqa: PLR0917
    session: SessionContext,
    files: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    lock: Statement,
    constraint_oid: int = 0,
    keys: pa.Array | None = None,
    newest: NewestVersions | None = None,
) -> bytes:
    """Run a function that locks rows and keys; return its answer. Their catalog rows are inserted again if they were
    removed. `newest` is asked when they are locked.
    """
    found: bytes | None = None
    listed = [] if keys is None else keys.to_pylist()
    # Other sessions cannot see rows of the transaction's own files.
    own = np.isin(files, list(session.transaction.following))
    arrays = _arrays(files[own], positions[own])
    while found is None:
        await session.gateway.store.row_locks.put(
            files[~own].tolist(), positions[~own].tolist(), constraint_oid, listed
        )
        async with session.transaction.deferred.stepping_out():
            if own.any():
                await session.backend.run(catalog_calls.put_own_row_locks(arrays))
            answer, *told = await session.backend.run(lock, *([] if newest is None else [newest.statement]))
        found = answer.rows[0][0]
    if newest is not None:
        newest.take(told[0])
    return found


def strength_of(table: Table, assigned: Collection[int] | None) -> Strength:
    """How a change that sets these columns or (None) deletes locks its rows: the weaker way if keys stay."""
    keys_stay = assigned is not None and all(
        key.deferrable or set(key.attnums).isdisjoint(assigned) for key in table.keys
    )
    return Strength.NO_KEY_UPDATE if keys_stay else Strength.UPDATE


async def hold_rows(
    session: SessionContext, rows: Rows, version: TableVersion, strength: Strength, waiting: Waiting = Waiting.WAIT
) -> bool:
    """Lock rows of a table that was read as `version`; return whether they are then `unharmed`."""
    newest = NewestVersions.of(session, [version.table.oid])
    await lock_positions(session, rows, version, strength, waiting, newest)
    return await unharmed(session, rows, version, strength, newest)


async def lock_positions(  # noqa: PLR0917
    session: SessionContext,
    rows: Rows,
    version: TableVersion,
    strength: Strength,
    waiting: Waiting,
    newest: NewestVersions | None = None,
) -> Rows:
    """Lock rows of a table that was read as `version`; return those that are locked, or that no other transaction
    could lock. `newest` is asked in the same round trip, if there is one.
    """
    held = [file for file in version.files if file.path in rows]
    lockable = lockable_files(session.transaction, held, strength)
    places = [(lockable[path], each) for path, each in rows.items() if path in lockable]
    if not places:
        return rows
    files = np.repeat([number for number, _ in places], [len(each) for _, each in places])
    positions = np.concatenate([each for _, each in places])
    locked = await lock_rows(session, version.table, files, positions, strength, waiting, newest)
    return {
        path: positions[locked & (files == lockable[path])] if path in lockable else each for path, each in rows.items()
    }


async def unharmed(
    session: SessionContext,
    rows: Rows,
    version: TableVersion,
    strength: Strength,
    newest: NewestVersions | None = None,
) -> bool:
    """Whether no other transaction has committed a change of these locked rows since `version`. A change that keeps
    their keys does not count for a key lock.
    """
    if await untouched(session, rows, version, newest):
        return True
    if strength is not Strength.KEY_SHARE:
        return False
    read = {file.path for file in version.files if file.data_file_id is not None}
    places = [(file_number(path), each) for path, each in rows.items() if path in read]
    files = np.repeat([number for number, _ in places], [len(each) for _, each in places])
    return await _keys_stay(session, version.table, files, np.concatenate([each for _, each in places]))


async def _keys_stay(
    session: SessionContext, table: Table, files: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]
) -> bool:
    """Lock the keys of rows at their present places; return whether all of them still exist."""
    files, positions = await _follow(session, table, files, positions, Strength.KEY_SHARE)
    newest = (await session.gateway.store.versions([table.oid])).get(table.oid)
    present = {} if newest is None else {file_number(file.path): file for file in newest.files}
    for number in np.unique(files):
        file = present.get(int(number))
        if file is None:
            return False
        gone = file.delete_file
        if gone is not None and await session.gateway.engine.deletes_any(table, gone, positions[files == number]):
            return False
    return True


async def _follow(
    session: SessionContext,
    table: Table,
    files: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    strength: Strength,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lock rows, which are locked at these places, wherever they have moved; return their present places."""
    settled = False
    while not settled:
        [answer] = await session.backend.run(catalog_calls.moved_rows(_arrays(files, positions)))
        places = np.frombuffer(answer.rows[0][0] or b"", _BIGINT, offset=4 * _HEAD_WORDS)["value"].astype(np.int64)
        before, (files, positions) = (files, positions), np.split(places, 2)
        settled = np.array_equal(before, (files, positions))
        if not settled:
            await lock_rows(session, table, files, positions, strength)
    return files, positions


@dataclass(frozen=True, slots=True)
class Contested:
    """Rows of `version` that another transaction has changed or locked, and how they are to be locked."""

    version: TableVersion
    rows: Rows
    strength: Strength


async def hold_present(session: SessionContext, contested: Contested) -> None:
    """Lock the rows as they are now, where they have kept their keys. A statement that is then computed again finds
    them unchanged, as PostgreSQL locks the newest version of a row before it looks at it again.
    """
    version, strength = contested.version, contested.strength
    lockable = lockable_files(session.transaction, version.files, strength)
    places = [(lockable[path], each) for path, each in contested.rows.items() if path in lockable and len(each)]
    if not places or sum(len(each) for _, each in places) > ROWS_MAX:
        return
    files = np.repeat([number for number, _ in places], [len(each) for _, each in places])
    positions = np.concatenate([each for _, each in places])
    await lock_rows(session, version.table, files, positions, strength)
    await _follow(session, version.table, files, positions, strength)


async def hold_met(session: SessionContext, rows: Rows, version: TableVersion, strength: Strength) -> bool:
    """Lock rows that a statement met before it failed, as they are now; return whether they are unharmed. If not, the
    statement may be computed again. Raises 40001 if the isolation level forbids that.
    """
    if await hold_rows(session, rows, version, strength):
        return True
    await check_may_look_again(session, version, rows)
    await hold_present(session, Contested(version, rows, strength))
    return False


async def untouched(
    session: SessionContext, rows: Rows, version: TableVersion, newest: NewestVersions | None = None
) -> bool:
    """Whether no other transaction has committed a change of these rows since `version`."""
    read = [file for file in version.files if file.data_file_id is not None and file.path in rows]
    if not read:
        return True
    table = version.table
    present_now = (await newest_of(session.gateway.store, [table.oid], newest)).get(table.oid)
    now = {} if present_now is None else {file.path: file for file in present_now.files}
    for file in read:
        present = now.get(file.path)
        if present is None:
            return False
        then, live = file.delete_file, present.delete_file
        if live is None or live.delete_file_id == (then and then.published_id):
            continue
        if await session.gateway.engine.deletes_any(table, live, rows[file.path]):
            return False
    return True


class RowsChangedError(SluiceError):
    """Another transaction has replaced rows since the statement saw them, or `deleted` them."""

    def __init__(self, *, deleted: bool = False) -> None:
        what = "delete" if deleted else "update"
        super().__init__(SqlState.SERIALIZATION_FAILURE, f"could not serialize access due to concurrent {what}")


def is_locked(error: BaseException, waiting: Waiting) -> bool:
    """Whether an error only says that another transaction has locked a row, which was not to be waited for."""
    locked = isinstance(error, SluiceError) and error.sqlstate == SqlState.LOCK_NOT_AVAILABLE
    return waiting is Waiting.FAIL and locked


def changed_meanwhile() -> SluiceError:
    """The error above READ COMMITTED for rows that another transaction has replaced."""
    return RowsChangedError()


def may_look_again(session: SessionContext) -> bool:
    """Whether a statement may be computed again after concurrent replacement of rows: its isolation level allows it,
    and it is no part of another statement (which then is).
    """
    transaction = session.transaction
    return transaction.isolation is Isolation.READ_COMMITTED and transaction.parts is None


async def check_may_look_again(session: SessionContext, version: TableVersion, rows: Rows) -> None:
    """After concurrent replacement of some of these rows of `version`: raise if the statement must not be computed
    again.
    """
    if not may_look_again(session):
        raise RowsChangedError(deleted=await _only_deleted(session, version.table, rows))


async def _only_deleted(session: SessionContext, table: Table, rows: Rows) -> bool:
    """Whether the transactions that have removed some of these rows have added none to the table."""
    files = LakeFiles(session.gateway.data_path)
    for path, positions in rows.items():
        found, left = await deletions_of(session.gateway.store, table, path), positions
        if found is None:
            continue
        if not found.live or len(found.files) > _HISTORY_MAX:
            return False
        for deletes, adds in found.files:  # each file includes the positions of the one before
            deleted = await asyncio.to_thread(deleted_positions, files, table.path, deletes)
            gone = np.isin(left, deleted)
            if adds and gone.any():
                return False
            left = left[~gone]
    return True
