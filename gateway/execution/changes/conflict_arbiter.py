"""Finds lake rows with the keys of new rows, for any UNIQUE constraint or index: the conflicts of ON CONFLICT."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import Key
from catalog.indexes import ComputedKey
from catalog.model import Column, DataFile, Table, TableVersion
from gateway.execution.changes.shadow_execution import one_array
from gateway.execution.constraints.exclusion_check import claim_exclusion, met_by
from gateway.execution.constraints.expression_keys import columns_of, given_keys
from gateway.execution.locks.key_claims import CLAIMS_MAX, claim_keys
from gateway.execution.locks.row_locks import may_look_again
from gateway.execution.shadow.loaded_rows import Loaded, load, load_live, places_of
from gateway.session.visibility import current
from storage.indexes.keys import Given, LiveFile, bounds_of, deleted_of, distinct, find, key_chunks, keys_of
from storage.parquet.files import LakeFiles
from storage.plan import Comparison
from storage.spark.write import replace_rows

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The distinct keys of the new rows. `bounds` are necessary conditions on rows with one of them."""

    key: Key | ComputedKey
    columns: Sequence[Column]
    keys: pa.Array
    bounds: Sequence[Comparison]


async def conflicts(
    session: SessionContext, table: Table, fresh: pa.Table, loaded: Loaded, *, everything: bool = False
) -> Loaded | None:
    """The loaded rows and the lake's rows that have a key of a fresh row; None if there are no further ones.

    Where a statement may look again, loaded rows that others have replaced or deleted meanwhile are left out; if there
    are such, a statement that needs `everything` gets all rows of the table as it is now.
    """
    wanted = [each for each in await _wanted(session, table, fresh) if len(each.keys)]
    claimed = [(each.key.oid, each.keys) for each in wanted if len(each.keys) <= CLAIMS_MAX]
    for exclusion in table.exclusions if fresh.num_rows else ():
        await claim_exclusion(session, table, exclusion)
    newest = await claim_keys(session, table, claimed)
    if not (wanted or table.exclusions):
        return None
    now = await current(session, table.oid, None, newest=newest)
    excluded = await met_by(session, table, fresh, now.files)
    given = [await given_keys(session, table, each.key, now.files) for each in wanted]
    path, again = session.gateway.data_path, may_look_again(session)
    return await asyncio.to_thread(
        _look, path, table, loaded, now.files, wanted, given, excluded, again=again, everything=everything
    )


def _present(data_path: str, table: Table, loaded: Loaded, live: Sequence[LiveFile]) -> npt.NDArray[np.bool_]:
    """For each loaded row, whether it is still there. Blocking."""
    files, now = LakeFiles(data_path), {each.file.path: each for each in live}
    stays = np.ones(len(loaded.positions), np.bool_)
    for number, file in enumerate(loaded.files):
        here, present = loaded.file_numbers == number, now.get(file.path)
        stays &= ~here if present is None else ~(here & np.isin(loaded.positions, deleted_of(files, table, present)))
    return stays


async def _wanted(session: SessionContext, table: Table, fresh: pa.Table) -> list[_Wanted]:
    found = []
    for key in table.keys:
        columns = [table.column(attnum) for attnum in key.attnums]
        arrays = [one_array(fresh, column) for column in columns]
        keys = keys_of(columns, arrays, nulls_distinct=key.nulls_distinct).drop_null()
        found.append(_Wanted(key, columns, distinct(keys)[0], bounds_of(columns, columns, arrays)))
    if table.computed_keys and fresh.num_rows:
        found += await _computed(session, table, fresh)
    return found


async def _computed(session: SessionContext, table: Table, fresh: pa.Table) -> list[_Wanted]:
    """The keys that Spark computes for rows in a file; the new rows are written to one temporarily."""
    path, found = session.gateway.data_path, []
    hot_rows = session.transaction.hot_rows_max
    result = await asyncio.to_thread(replace_rows, path, TableVersion(table, 0, ()), {}, [fresh], hot_rows)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(session.gateway.engine.discard, result, table.path)
        files = [LiveFile(file) for file in result.data_files]
        for key in table.computed_keys:
            given, columns = await given_keys(session, table, key, files), columns_of(table, key)
            keys = await asyncio.to_thread(_keys, path, table, key, files, given)
            found.append(_Wanted(key, columns, distinct(keys)[0], []))
    return found


def _keys(data_path: str, table: Table, key: ComputedKey, files: Sequence[LiveFile], given: Given | None) -> pa.Array:
    chunks = key_chunks(data_path, table, files, columns_of(table, key), nulls_distinct=key.nulls_distinct, given=given)
    return pa.concat_arrays([pa.array([], pa.binary()), *(chunk.keys for chunk in chunks)])


def _look(  # noqa: PLR0917
    data_path: str,
    table: Table,
    loaded: Loaded,
    live: Sequence[LiveFile],
    wanted: Sequence[_Wanted],
    given: Sequence[Given | None],
    excluded: Sequence[tuple[DataFile, npt.NDArray[np.int64]]],
    *,
    again: bool,
    everything: bool,
) -> Loaded | None:
    """Blocking."""
    files: list[DataFile] = list(loaded.files)
    numbers = {file.path: number for number, file in enumerate(files)}
    places = [places_of(loaded.file_numbers, loaded.positions)]

    def number_of(file: DataFile) -> int:
        if file.path not in numbers:
            numbers[file.path] = len(files)
            files.append(file)
        return numbers[file.path]

    for file, positions in excluded:
        places.append(places_of(np.full(len(positions), number_of(file)), positions))
    for each, of_files in zip(wanted, given, strict=True):
        nulls_distinct = each.key.nulls_distinct
        found = find(
            data_path, table, each.columns, live, each.keys, each.bounds, nulls_distinct=nulls_distinct, given=of_files
        )
        renumbered = np.array([number_of(live_file.file) for live_file in found.files], np.int64)
        places.append(places_of(renumbered[found.file_numbers], found.positions))
    every = np.unique(np.concatenate(places))
    if len(every) == len(places[0]):
        return None
    stays = _present(data_path, table, loaded, live) if again else np.ones(len(places[0]), np.bool_)
    if everything and not stays.all():
        return load_live(data_path, table, live)
    return load(data_path, table, files, np.setdiff1d(every, places[0][~stays]))
