"""Locks on rows of the lake, as PostgreSQL's row locks: in the session's transaction, until it ends.

A row is a place in a published data file; rows of files that the transaction itself has written nobody else can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.datatypes import INT8
from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from gateway.backend import Statement
from gateway.values.binary import binary_array

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_LOCK_ROWS: Final = "SELECT pg_sluice.lock_rows($1, $2::bigint::oid, $3::bigint[], $4::bigint[], $5, $6)"
_LOCK_ALL: Final = "SELECT pg_sluice.lock_all_rows($1, $2::bigint::oid, $3)"
# A statement that locks more rows than this locks the table's rows as a whole.
_ROWS_MAX: Final = 10_000
# An integer[] in PostgreSQL's binary form: a head of five words (dimensions, nulls, type, size, lower bound), then each
# element after its length.
_HEAD_WORDS: Final = 5

Rows = Mapping[int, npt.NDArray[np.int64]]


class Strength(StrEnum):
    """PostgreSQL's row locks, weakest first."""

    KEY_SHARE = "KEY SHARE"
    SHARE = "SHARE"
    NO_KEY_UPDATE = "NO KEY UPDATE"
    UPDATE = "UPDATE"


class Waiting(StrEnum):
    """What to do about a row that somebody else has locked."""

    WAIT = ""
    SKIP = "SKIP LOCKED"
    FAIL = "NOWAIT"


async def lock_rows(  # noqa: PLR0917
    session: Exchange,
    version: TableVersion,
    data_file_ids: npt.NDArray[np.int64],
    positions: npt.NDArray[np.int64],
    strength: Strength,
    waiting: Waiting = Waiting.WAIT,
) -> npt.NDArray[np.bool_]:
    """Lock rows of a table; which of them are locked. What others did to them until then is to be looked at."""
    table = version.table
    token, oid = session.gateway.token, str(table.oid)
    try:
        if len(positions) > _ROWS_MAX:
            [answer] = await session.backend.run(Statement(_LOCK_ALL, (token, oid, waiting)))
            return np.full(len(positions), answer.rows[0][0] == b"t")
        files, places = (binary_array(pa.array(each, pa.int64()), INT8) for each in (data_file_ids, positions))
        parameters = (token, oid, files, places, strength, waiting)
        lock = Statement(_LOCK_ROWS, parameters, parameter_formats=(0, 0, 1, 1, 0, 0), result_format=1)
        numbers: bytes | None = None
        while numbers is None:
            await session.gateway.store.row_locks.put(data_file_ids.tolist(), positions.tolist())
            [answer] = await session.backend.run(lock)
            numbers = answer.rows[0][0]
    except SluiceError as error:
        if waiting is Waiting.FAIL and error.sqlstate == SqlState.LOCK_NOT_AVAILABLE:
            text = f'could not obtain lock on row in relation "{table.name}"'
            raise SluiceError(SqlState.LOCK_NOT_AVAILABLE, text) from error
        raise
    locked = np.zeros(len(positions), np.bool_)
    words = np.frombuffer(numbers, ">i4")
    locked[words[_HEAD_WORDS + 1 :: 2] - 1] = True
    return locked


async def untouched(session: Exchange, rows: Rows, version: TableVersion) -> bool:
    """Whether nobody has committed a change of these rows, by data file, since `version` was made."""
    newest = (await session.gateway.store.versions([version.table.oid])).get(version.table.oid)
    now = {} if newest is None else {file.data_file_id: file for file in newest.files}
    for file in version.files:
        if file.data_file_id is None or file.data_file_id not in rows:
            continue
        present = now.get(file.data_file_id)
        if present is None:
            return False
        then, live = file.delete_file, present.delete_file
        if live is None or live.delete_file_id == (then and then.published_id):
            continue
        if await session.gateway.engine.deletes_any(version.table, live, rows[file.data_file_id]):
            return False
    return True


def changed_meanwhile() -> SluiceError:
    """What a transaction above READ COMMITTED is told of rows that somebody else has replaced."""
    return SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
