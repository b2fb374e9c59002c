"""Whether an UPDATE that sets columns of keys leaves every row's key as it is.

Source: heap_update of PostgreSQL, which compares the values of key columns: if they are the same, the row lock is the
weaker one, which holders of the key do not wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.execution.locks.row_locks import ROWS_MAX, Strength, strength_of
from gateway.execution.shadow.loaded_rows import load, places_of
from storage.indexes.keys import keys_of
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles

if TYPE_CHECKING:
    from catalog.constraints import Key
    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult


async def strength_for(
    session: SessionContext,
    version: TableVersion,
    result: WriteResult,
    assigned: Collection[int] | None,
    sources: pa.Table | None,
) -> Strength:
    """How a change on top of the version locks its rows: `strength_of`, also by the values of keys. `sources` are those
    of `Changing.claim`.
    """
    strength = strength_of(version.table, assigned)
    pairs = result.sources if sources is None else result.in_order(sources)
    if strength is not Strength.UPDATE or assigned is None or pairs is None:
        return strength
    if not pairs.num_rows or pairs.num_rows > ROWS_MAX or pairs["position"].null_count:
        return strength
    keys = [key for key in version.table.keys if not key.deferrable and not set(key.attnums).isdisjoint(assigned)]
    stay = await asyncio.to_thread(_stay, session.gateway.data_path, version, result, pairs, keys)
    return Strength.NO_KEY_UPDATE if stay else strength


def _stay(data_path: str, version: TableVersion, result: WriteResult, pairs: pa.Table, keys: Sequence[Key]) -> bool:
    """Blocking."""
    table, lake = version.table, LakeFiles(data_path)
    columns = [column for column in table.columns if any(column.attnum in key.attnums for key in keys)]
    made = [batch for file in result.data_files for _, batch in read_rows(lake, table, file, columns)]
    after = pa.Table.from_batches(made)
    paths = pa.array([file.path for file in version.files], pa.string())
    numbers = pc.index_in(pc.cast(pairs["file"], pa.string()).combine_chunks(), paths)
    if numbers.null_count or after.num_rows != pairs.num_rows:
        return False
    places = places_of(numbers.to_numpy().astype(np.int64), pairs["position"].to_numpy())
    distinct, order = np.unique(places, return_inverse=True)
    before = load(data_path, table, version.files, distinct, columns).rows.take(pa.array(order))
    for key in keys:
        of_key = [table.column(attnum) for attnum in key.attnums]
        then, now = (
            keys_of(of_key, [rows[column.name].combine_chunks() for column in of_key]) for rows in (before, after)
        )
        if not then.equals(now):
            return False
    return True
