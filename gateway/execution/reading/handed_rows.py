"""Chooses the engine that begins with a statement over lake tables, and the handed rows for PostgreSQL.

If all rows of the tables together are few, all are handed. Of a larger table, its PRIMARY KEY or a UNIQUE constraint
finds the few rows that the statement can need, without Spark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import UUID
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.execution.reading.stored_rows import StoredRead, to_read
from gateway.execution.shadow.loaded_rows import Loaded, load, places_of
from gateway.session.offload import offloaded
from gateway.statement.query_placement import Asked, are_few, asked
from planner.plans.placement import DECIDED, PLACEMENTS, Engine, Kind, Place, Placement, kind_of
from planner.plans.row_filter import WantedKeys, keys_in, wanted_keys
from planner.plans.stored_scan import StoredScan, stored_scan
from storage.indexes.fingerprints import can_be_kept
from storage.indexes.keys import LiveFile, bounds_of, find, is_at_hand, keys_of, live_files
from storage.parquet.arrow_types import arrow_type
from storage.parquet.row_conditions import read_columns
from storage.parquet.small_files import is_small

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.model import Column, Table, TableVersion
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.plans.constant_change import ConstantChange
    from planner.tree.nodes import Node
    from storage.plan import Comparison


# As many keys are looked up without a thread, if no file is opened for them.
_KEYS_AT_ONCE: Final = 100
_SIZE_AT_ONCE: Final = 16_384
# Looking up keys takes as long as handing this many rows.
_HANDED_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Placed:
    """The engine that begins, and why. If PostgreSQL begins with `few` rows, they are those `found`, by the table's
    OID, and all rows of its other tables; otherwise those of `gateway.execution.reading.postgres_query.loads`.
    If the gateway begins, `stored` is what it reads, or `change` what it does to few rows of the target.
    """

    placement: Placement
    few: bool = False
    found: Mapping[int, Loaded] = field(default_factory=dict)
    stored: StoredRead | None = None
    change: ConstantChange | None = None

    @property
    def is_with_postgres(self) -> bool:
        """Whether PostgreSQL begins."""
        return self.placement.place is Place.POSTGRES


def not_computed() -> SluiceError:
    """The error if PostgreSQL turns out to be unable; no client sees it."""
    return unsupported("what is placed with PostgreSQL")


async def placed(session: SessionContext, query: Node, reading: Reading) -> Placed:
    """The engine that begins with a query, UPDATE or DELETE over the tables of `reading`; 22023 for an invalid
    setting.
    """
    given = asked(session, reading.placing)
    decided = DECIDED.get(given.engine)
    if decided is not None:
        return Placed(decided)
    kind = await offloaded(session, reading.size, kind_of, query, session.gateway.builtins, past=reading.past)
    if kind is not Kind.FEW or given.engine is not Engine.AUTO:
        return Placed(PLACEMENTS[given.engine, kind])
    stored = await offloaded(session, reading.size, stored_scan, query, reading.context)
    found = None
    if stored is None or stored.conditions:
        found = await _few(session, query, reading, given, stored)
    read = None
    if stored is not None:
        read = await to_read(session, stored, reading, (found or {}).get(stored.table_oid))
    if read is not None:
        return Placed(PLACEMENTS[given.engine, Kind.STORED], stored=read)
    if found is None:
        return Placed(PLACEMENTS[given.engine, Kind.MANY])
    return Placed(PLACEMENTS[given.engine, kind], few=True, found=found)


async def _few(
    session: SessionContext, query: Node, reading: Reading, given: Asked, stored: StoredScan | None
) -> dict[int, Loaded] | None:
    """The rows found by keys if the statement needs few; None if it may need many. Those of a `stored` scan have only
    its columns."""
    versions = sorted(reading.versions.values(), key=lambda version: version.row_count)
    whole = list(versions)
    while whole and not are_few(whole, given.small_rows):
        whole.pop()  # the largest table
    found: dict[int, Loaded] = {}
    for number, version in enumerate(versions):
        is_whole = number < len(whole)
        if is_whole and version.row_count <= _HANDED_MAX:
            continue
        if stored is None:
            wanted = await offloaded(session, reading.size, wanted_keys, query, version.table.oid, reading.context)
        else:
            wanted = keys_in(version.table, stored.predicate)
        rows = None
        if wanted is not None and given.small_rows:
            columns = None if stored is None else read_columns(version.table, stored.columns, stored.conditions)
            rows = await rows_by_keys_aside(session.gateway.data_path, version, wanted, reading.size, columns)
        if rows is not None and rows.rows.num_rows <= given.small_rows:
            found[version.table.oid] = rows
        elif not is_whole:
            return None
    return found


async def rows_by_keys_aside(
    data_path: str, version: TableVersion, wanted: WantedKeys, size: int = 0, needed: Sequence[Column] | None = None
) -> Loaded | None:
    """`rows_by_keys`, in a thread if that may take long; `size` is that of a statement that names the keys."""
    if len(wanted.values) > _KEYS_AT_ONCE or size > _SIZE_AT_ONCE:
        return await asyncio.to_thread(rows_by_keys, data_path, version, wanted, needed)
    search = _Search.of(version, wanted)
    if search is None:
        return None
    if is_at_hand(version.table, search.live, search.bounds):
        return _found(data_path, version.table, search, needed)
    return await asyncio.to_thread(_found, data_path, version.table, search, needed)


def rows_by_keys(
    data_path: str, version: TableVersion, wanted: WantedKeys, needed: Sequence[Column] | None = None
) -> Loaded | None:
    """The live rows with these keys, with all columns or those `needed`; None if the search would take long.
    Blocking."""
    search = _Search.of(version, wanted)
    return None if search is None else _found(data_path, version.table, search, needed)


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for rows by keys over these columns."""

    live: Sequence[LiveFile]
    columns: Sequence[Column]
    keys: pa.Array
    bounds: Sequence[Comparison]

    @classmethod
    def of(cls, version: TableVersion, wanted: WantedKeys) -> Self | None:
        """None if it would take long."""
        large = sum(file.record_count for file in version.files if not is_small(file))
        columns = [version.table.column(attnum) for attnum in wanted.attnums]
        arrays = _arrays(columns, wanted.values) if can_be_kept(large) else None
        if arrays is None:
            return None
        try:
            keys = keys_of(columns, arrays).drop_null().unique()
        except SluiceError as error:
            if error.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                raise
            return None
        return cls(live_files(version), columns, keys, bounds_of(columns, columns, arrays))


def _found(data_path: str, table: Table, search: _Search, needed: Sequence[Column] | None) -> Loaded | None:
    columns, keys = search.columns, search.keys
    try:
        found = find(data_path, table, columns, search.live, keys, search.bounds, checked=False)
    except SluiceError as error:
        if error.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return None
    places = np.sort(places_of(found.file_numbers, found.positions))
    if needed is not None:
        needed = [*needed, *(each for each in columns if each not in needed)]
    loaded = load(data_path, table, [each.file for each in found.files], places, needed)
    given = keys_of(columns, [loaded.rows[column.name].combine_chunks() for column in columns])
    return loaded.chosen(pc.is_in(given, keys))


def _arrays(columns: Sequence[Column], values: Sequence[tuple[object, ...]]) -> list[pa.Array] | None:
    """The values in lake form, column by column; None if a column cannot store one of them."""
    arrays = []
    for place, column in enumerate(columns):
        given = [row[place] for row in values]
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            listed = list(map(str, given)) if column.type_oid == UUID else given
            arrays.append(pa.array(listed, arrow_type(column.form)))
    return arrays if len(arrays) == len(columns) else None
