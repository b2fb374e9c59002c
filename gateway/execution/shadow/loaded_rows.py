"""Reads rows of the lake by their places: file and position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.model import Column, DataFile, Table, TableVersion
from storage.indexes.keys import LiveFile, deleted_of, live_files
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_rows import read_positions
from storage.parquet.files import LakeFiles

_POSITION_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows of the lake, in parallel: the file, the row's number in it, all columns (see `load`)."""

    files: tuple[DataFile, ...]
    file_numbers: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    rows: pa.Table

    def by_path(self, chosen: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
        """The positions of the chosen rows, ascending, by the path of their data file."""
        found = {}
        for number, file in enumerate(self.files):
            positions = self.positions[chosen & (self.file_numbers == number)]
            if len(positions):
                found[file.path] = np.sort(positions)
        return found

    def without(self, left_out: Mapping[str, npt.NDArray[np.int64]]) -> Loaded:
        """All rows except those at these positions, by the path of their data file."""
        stays = np.ones(len(self.positions), np.bool_)
        for number, file in enumerate(self.files):
            gone = left_out.get(file.path)
            if gone is not None:
                stays &= ~((self.file_numbers == number) & np.isin(self.positions, gone))
        return self.chosen(pa.array(stays))

    def chosen(self, mask: pa.BooleanArray) -> Loaded:
        """The rows for which the mask, without NULLs, is true."""
        if mask.true_count == len(mask):
            return self
        chosen = mask.to_numpy(zero_copy_only=False)
        return Loaded(self.files, self.file_numbers[chosen], self.positions[chosen], self.rows.filter(mask))


def nothing_loaded(table: Table) -> Loaded:
    """No rows."""
    empty = np.empty(0, np.int64)
    return Loaded((), empty, empty, row_schema(table).empty_table())


def places_of(file_numbers: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each row, its file's number and its position as one number."""
    return (file_numbers << _POSITION_BITS) | positions


def places_in(batch: pa.RecordBatch, column: int, numbers: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """`places_of` rows that have the path of their file, whose number is known, in a column, and their position in the
    next one.
    """
    encoded = batch.column(column).dictionary_encode()
    of_paths = np.array([numbers[path] for path in encoded.dictionary.to_pylist()], np.int64)
    files = of_paths[encoded.indices.to_numpy(zero_copy_only=False)]
    return places_of(files, batch.column(column + 1).to_numpy(zero_copy_only=False))


def load(
    data_path: str,
    table: Table,
    files: Sequence[DataFile],
    places: npt.NDArray[np.int64],
    needed: Sequence[Column] | None = None,
) -> Loaded:
    """The distinct rows at these places, ascending, with all columns or those `needed`. Blocking."""
    file_numbers, positions = places >> _POSITION_BITS, places & ((1 << _POSITION_BITS) - 1)
    columns = table.columns if needed is None else needed
    parts = [
        read_positions(data_path, table, files[number], columns, positions[file_numbers == number])
        for number in np.unique(file_numbers)
    ]
    return Loaded(tuple(files), file_numbers, positions, pa.concat_tables([_schema(columns).empty_table(), *parts]))


def load_all(data_path: str, version: TableVersion) -> Loaded:
    """Every live row of the table. Blocking."""
    return load_live(data_path, version.table, live_files(version))


def load_live(data_path: str, table: Table, live: Sequence[LiveFile]) -> Loaded:
    """Every row of these files that nothing deletes. Blocking."""
    places = [live_places(data_path, table, number, each) for number, each in enumerate(live)]
    return load(data_path, table, [each.file for each in live], np.concatenate([np.empty(0, np.int64), *places]))


def live_places(data_path: str, table: Table, number: int, file: LiveFile) -> npt.NDArray[np.int64]:
    """The places, ascending, of the rows of the file with this number that nothing deletes. Blocking."""
    alive = np.ones(file.file.record_count, np.bool_)
    alive[deleted_of(LakeFiles(data_path), table, file)] = False
    positions = np.flatnonzero(alive)
    return places_of(np.full(len(positions), number), positions)


def row_schema(table: Table) -> pa.Schema:
    """The table's columns, in lake form."""
    return _schema(table.columns)


def _schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.form)) for column in columns])
