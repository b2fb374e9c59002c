"""Keys in the lake's files: the keys of rows, and the rows with given keys.

A key is one binary value: columns of one class (`pg_sluice.key_class`) are equal in PostgreSQL exactly if these values
are equal, whatever their scale, width or padding. NULL stands for a row without a key. Files whose statistics exclude
the wanted keys are not opened. If few keys are wanted, large files are read once, and later only where such rows may be
(`storage/indexes/fingerprints.py`). Else memory holds the wanted keys and one batch of rows.

Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Self
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from catalog.errors import unsupported
from catalog.model import Column, DataFile, DeleteFile, Table, TableVersion
from storage.indexes.fingerprints import WANTED_MAX, can_be_kept, fingerprints_of_file
from storage.indexes.pruning import prune
from storage.parquet.file_identity import expected
from storage.parquet.file_rows import read_positions, read_rows
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions
from storage.parquet.small_files import is_small
from storage.plan import Comparison

_MIDNIGHT: Final = 86_400_000_000
_AS_TEXT: Final = "STRING"
# New keys are looked up so many at a time.
_CHUNK_ROWS: Final = 1_000_000
# Up to so many wanted keys, pruning compares each of them; beyond, the least and the greatest.
_COMPARED_MAX: Final = 64
# A search over so many files, of which it reads hot rows of so many characters, takes less time than a thread.
_FILES_AT_ONCE: Final = 64
_CHARACTERS_AT_ONCE: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file with everything that deletes rows of it."""

    file: DataFile
    deletes: tuple[DeleteFile, ...] = ()

    @classmethod
    def of(cls, file: DataFile) -> Self:
        """The file with its own deletions."""
        return cls(file, () if file.delete_file is None else (file.delete_file,))


def live_files(version: TableVersion) -> list[LiveFile]:
    """Return the version's files with what deletes rows of them."""
    return [LiveFile.of(file) for file in version.files]


@dataclass(frozen=True, slots=True)
class Found:
    """Rows with wanted keys, in parallel arrays: the file, the row's position in it, and the number of the wanted
    key."""

    files: list[LiveFile]
    file_numbers: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class KeyChunk:
    """Some rows that have a key: the keys, and their columns."""

    keys: pa.Array
    columns: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The key columns of a row (one row) with a duplicate key, and the place of the other row, unless that is new
    too."""

    columns: pa.RecordBatch
    file: DataFile | None
    position: int


def keys_of(columns: Sequence[Column], arrays: Sequence[pa.Array], *, nulls_distinct: bool = True) -> pa.Array:
    """Return the key of each row; NULL if any column is NULL and `nulls_distinct`."""
    parts = [_canonical(column, array) for column, array in zip(columns, arrays, strict=True)]
    if len(parts) == 1 and nulls_distinct:
        return parts[0]
    pieces: list[Any] = []
    for part in parts:
        length = pc.binary_length(part).cast(pa.string()).view(pa.binary())
        pieces += [pc.fill_null(length, b""), pc.fill_null(part, b"")] if not nulls_distinct else [length, part]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b":", pa.binary()))


def _canonical(column: Column, array: pa.Array) -> pa.Array:
    """Return equal values as equal bytes."""
    text: pa.Array
    if pa.types.is_list(array.type):
        return _list_of_canonical(column, array)
    match datatypes.kind_of(column.type_oid):
        case datatypes.BYTEA:
            return array
        case datatypes.CARRIED if column.typmod == datatypes.EQUAL_NUMBERS:
            text = _without_scales(array)
        case datatypes.TEXT | datatypes.VARCHAR | datatypes.UUID | datatypes.ANYENUM | datatypes.CARRIED:
            text = array
        case datatypes.JSONB:
            text = _json_without_scales(array)
        case datatypes.BPCHAR:
            text = pc.utf8_rtrim(array, characters=" ")
        case datatypes.NUMERIC:
            text = _number_text(array)
        case datatypes.FLOAT4 | datatypes.FLOAT8:
            text = pc.add(array.cast(pa.float64()), 0.0).cast(pa.string())  # -0 is 0
        case datatypes.DATE:
            text = array.cast(pa.int32()).cast(pa.string())
        case datatypes.TIME | datatypes.TIMESTAMP | datatypes.TIMESTAMPTZ:
            text = array.cast(pa.int64()).cast(pa.string())
        case datatypes.BOOL | datatypes.INT2 | datatypes.INT4 | datatypes.INT8:
            text = array.cast(pa.string())
        case _:
            raise unsupported(f'a key column "{column.name}" of this type')
    return text.view(pa.binary()) if pa.types.is_string(text.type) else text.cast(pa.binary())


def _list_of_canonical(column: Column, array: pa.Array) -> pa.Array:
    """Return the elements, each with its length before it; a NULL has none."""
    element = datatypes.element_type(column.type_oid)
    assert element is not None
    parts = _canonical(replace(column, type_oid=element.oid), array.values)
    lengths = pc.binary_length(parts).cast(pa.string()).view(pa.binary())
    pieces = pc.binary_join_element_wise(lengths, parts, pa.scalar(b":", pa.binary()))
    lists = pa.ListArray.from_arrays(array.offsets, pieces.fill_null(b"-"))
    joined = pc.binary_join(lists, pa.scalar(b"", pa.binary()))
    return pc.if_else(array.is_valid(), joined, pa.scalar(None, pa.binary()))


def _number_text(array: pa.Array) -> pa.Array:
    """Return a numeric's text without its scale; every decimal at one scale first, so that tiny ones are spelled
    alike."""
    text = array
    if pa.types.is_decimal(array.type):
        text = array.cast(pa.decimal256(76, 38)).cast(pa.string())
        text = pc.replace_substring_regex(text, r"^0E[-+]?\d+$", "0")
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")


def _without_scales(array: pa.Array) -> pa.Array:
    """Return texts of ranges or arrays of numbers without the scales of these."""
    text = pc.replace_substring_regex(array, r"(\.\d*[1-9])0+([],)}])", r"\1\2")
    return pc.replace_substring_regex(text, r"\.0+([],)}])", r"\1")


def _json_without_scales(array: pa.Array) -> pa.Array:
    """Return PostgreSQL's texts of jsonb without the scales of numbers; strings stay as they are."""
    string = r'("(?:[^"\\]|\\.)*")'
    text = pc.replace_substring_regex(array, string + r"|(\.\d*[1-9])0+([],}]|$)", r"\1\2\3")
    return pc.replace_substring_regex(text, string + r"|\.0+([],}]|$)", r"\1\2")


# Keys that are not in the files themselves: by a file's path, its rows with a key, as columns and `position`.
Given = Mapping[str, pa.Table]


def _places(
    files: LakeFiles, table: Table, file: DataFile, columns: Sequence[Column], given: Given | None
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """Yield columns of a file's rows, batch by batch, each with the rows' positions."""
    if given is None:
        for first, batch in read_rows(files, table, file, columns):
            yield np.arange(first, first + batch.num_rows), batch
    elif file.path in given:
        for batch in given[file.path].to_batches():
            yield batch.column(len(columns)).to_numpy(), batch.select(range(len(columns)))


def key_chunks(
    data_path: str,
    table: Table,
    new: Iterable[LiveFile],
    columns: Sequence[Column],
    *,
    nulls_distinct: bool,
    given: Given | None = None,
    left_out: Mapping[str, npt.NDArray[np.int64]] = MappingProxyType({}),
) -> Iterator[KeyChunk]:
    """Yield the keys of all live rows of files, some at a time. Rows without a key are left out, and those at the
    positions `left_out`, by the path of their file.
    """
    files = LakeFiles(data_path)
    pending: list[KeyChunk] = []
    count = 0
    for each in new:
        deleted = deleted_of(files, table, each)
        if each.file.path in left_out:
            deleted = np.concatenate((deleted, left_out[each.file.path]))
        for places, batch in _places(files, table, each.file, columns, given):
            keys = keys_of(columns, batch.columns, nulls_distinct=nulls_distinct)
            wanted = keys.is_valid()
            if len(deleted):
                wanted = pc.and_(wanted, pa.array(~np.isin(places, deleted)))
            pending.append(KeyChunk(keys.filter(wanted), batch.filter(wanted)))
            count += len(pending[-1].keys)
            if count >= _CHUNK_ROWS:
                yield _joined(pending)
                pending, count = [], 0
    if count:
        yield _joined(pending)


def _joined(pending: Sequence[KeyChunk]) -> KeyChunk:
    columns = pa.Table.from_batches([chunk.columns for chunk in pending]).combine_chunks()
    return KeyChunk(pa.concat_arrays([chunk.keys for chunk in pending]), columns.to_batches()[0])


def deleted_of(files: LakeFiles, table: Table, each: LiveFile) -> npt.NDArray[np.int64]:
    """Return the positions of the rows that the file's delete files remove."""
    parts = [deleted_positions(files, table.path, delete) for delete in each.deletes]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def duplicate(  # noqa: PLR0917
    data_path: str,
    table: Table,
    columns: Sequence[Column],
    chunks: Iterable[KeyChunk],
    new: Sequence[LiveFile],
    others: Sequence[LiveFile],
    *,
    nulls_distinct: bool,
    given: Given | None = None,
) -> Duplicate | None:
    """Return the first row of `chunks` whose key an earlier one has, or a row of `others`; None if all are unique.

    The chunks are those of the files `new`.
    """
    for number, chunk in enumerate(chunks):
        values, places = distinct(chunk.keys)
        repeated = np.ones(len(chunk.keys), np.bool_)
        repeated[places] = False
        if repeated.any():
            return Duplicate(chunk.columns.slice(int(np.argmax(repeated)), 1), None, 0)
        bounds = bounds_of(columns, columns, chunk.columns.columns) if given is None else []
        found = find(data_path, table, columns, others, values, bounds, nulls_distinct=nulls_distinct, given=given)
        if len(found):
            first = int(np.argmin(places[found.wanted]))
            file = found.files[found.file_numbers[first]].file
            row = int(places[found.wanted[first]])
            return Duplicate(chunk.columns.slice(row, 1), file, int(found.positions[first]))
        if number:  # an earlier chunk exists
            again = find(data_path, table, columns, new, values, bounds, nulls_distinct=nulls_distinct, given=given)
            counts = np.bincount(again.wanted, minlength=len(values))
            if (counts > 1).any():
                return Duplicate(chunk.columns.slice(int(places[np.argmax(counts > 1)]), 1), None, 0)
    return None


def distinct(keys: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the distinct keys, and the first row of each."""
    encoded = keys.dictionary_encode()
    _, places = np.unique(encoded.indices.to_numpy(zero_copy_only=False), return_index=True)
    return encoded.dictionary, places.astype(np.int64)


def find(  # noqa: PLR0917
    data_path: str,
    table: Table,
    columns: Sequence[Column],
    live: Sequence[LiveFile],
    wanted: pa.Array,
    bounds: Sequence[Comparison],
    *,
    nulls_distinct: bool = True,
    given: Given | None = None,
    checked: bool = True,
) -> Found:
    """Return the live rows whose key over `columns` is one of `wanted` (distinct, no NULLs).

    `bounds` are necessary conditions on these rows (`bounds_of`). If they are not `checked`, a few other rows may be
    among them, and the number of the wanted key is -1 where it is not known: the caller reads the rows anyway.
    """
    files = LakeFiles(data_path)
    kept, _ = prune([each.file for each in live], table, bounds)
    names = {file.path for file in kept}
    chosen = [each for each in live if each.file.path in names]
    file_numbers, positions, matches = [], [], []
    large = [each.file for each in chosen if not is_small(each.file)]
    # A file whose fingerprints would evict those of the next lookup is read without keeping them.
    are_kept = given is None and len(wanted) <= WANTED_MAX and can_be_kept(sum(file.record_count for file in large))
    for number, each in enumerate(chosen):
        deleted: npt.NDArray[np.int64] | None = None  # read when needed
        if are_kept and not is_small(each.file):
            may_have = _places_kept(files, table, each.file, columns, wanted, nulls_distinct=nulls_distinct)
            if not checked and len(may_have):
                places = may_have[~np.isin(may_have, deleted_of(files, table, each))]
                positions.append(places)
                matches.append(np.full(len(places), -1))
                file_numbers.append(np.full(len(places), number))
            if not checked or not len(may_have):
                continue
            rows = read_positions(data_path, table, each.file, columns, may_have)
            batches: Iterable[tuple[npt.NDArray[np.int64], pa.RecordBatch]] = [(may_have, rows.to_batches()[0])]
        else:
            batches = _places(files, table, each.file, columns, given)
        for at, keys in _runs(batches, columns, len(wanted), nulls_distinct=nulls_distinct):
            found = pc.index_in(keys, wanted)
            met = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
            if not len(met):
                continue
            if deleted is None:
                deleted = deleted_of(files, table, each)
            places = at[met]
            alive = ~np.isin(places, deleted)
            positions.append(places[alive])
            matches.append(found.take(pa.array(met[alive])).to_numpy(zero_copy_only=False).astype(np.int64))
            file_numbers.append(np.full(int(alive.sum()), number))
    empty = [np.empty(0, np.int64)]
    return Found(
        chosen,
        np.concatenate(file_numbers or empty),
        np.concatenate(positions or empty),
        np.concatenate(matches or empty),
    )


def is_at_hand(table: Table, live: Sequence[LiveFile], bounds: Sequence[Comparison]) -> bool:
    """Whether `find` under these bounds opens no file, and is done at once."""
    if len(live) > _FILES_AT_ONCE:
        return False
    kept = {file.path for file in prune([each.file for each in live], table, bounds)[0]}
    chosen = [each for each in live if each.file.path in kept]
    size = sum(len(each.file.hot_rows or "") for each in chosen)
    return size <= _CHARACTERS_AT_ONCE and all(
        each.file.hot_rows is not None and all(delete.file is None for delete in each.deletes) for each in chosen
    )


def _places_kept(
    files: LakeFiles, table: Table, file: DataFile, columns: Sequence[Column], wanted: pa.Array, *, nulls_distinct: bool
) -> npt.NDArray[np.int64]:
    """Return the positions, ascending, of the rows that may have a wanted key."""

    def read() -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
        for at, batch in _places(files, table, file, columns, None):
            yield at, keys_of(columns, batch.columns, nulls_distinct=nulls_distinct)

    files.confirm([expected(table.path, file)])
    made_of = tuple((each.column_id, each.type_oid, each.typmod, each.initial_default) for each in columns)
    identity = (files.data_path, table.path, file.path, made_of, nulls_distinct)
    return fingerprints_of_file(identity, read).places(wanted)


def _runs(
    batches: Iterable[tuple[npt.NDArray[np.int64], pa.RecordBatch]],
    columns: Sequence[Column],
    least: int,
    *,
    nulls_distinct: bool,
) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """Yield the keys of a file, with their positions, in runs of at least so many rows: each lookup costs a table of
    all wanted keys."""
    places: list[npt.NDArray[np.int64]] = []
    pending: list[pa.Array] = []
    for at, batch in batches:
        places.append(at)
        pending.append(keys_of(columns, batch.columns, nulls_distinct=nulls_distinct))
        if sum(map(len, places)) >= least:
            yield np.concatenate(places), pa.concat_arrays(pending)
            places, pending = [], []
    if pending:
        yield np.concatenate(places), pa.concat_arrays(pending)


def bounds_of(columns: Sequence[Column], parents: Sequence[Column], values: Sequence[pa.Array]) -> list[Comparison]:
    """Return necessary conditions on rows whose `parents` columns equal a row of `values`, which are of `columns`."""
    found = []
    for column, parent, array in zip(columns, parents, values, strict=True):
        if pa.types.is_list(array.type):
            continue  # files have no bounds of them
        if column.form != parent.form and _AS_TEXT in (column.form.spark, parent.form.spark):
            continue  # a number, and one that is stored as text
        if (column.type_oid == datatypes.BPCHAR) != (parent.type_oid == datatypes.BPCHAR):
            continue  # one padded with blanks, one not
        chosen = pc.unique(array).drop_null() if len(array) <= _COMPARED_MAX else array
        if len(chosen) > _COMPARED_MAX:
            ends = _ends(column, array)
            if ends is not None:
                found += [Comparison(parent.attnum, ">=", (ends[0],)), Comparison(parent.attnum, "<=", (ends[1],))]
        elif len(chosen) and array.null_count == 0 and (listed := _python(column, chosen)) is not None:
            found.append(Comparison(parent.attnum, "in", tuple(listed)))
    return found


def _ends(column: Column, array: pa.Array) -> list[Any] | None:
    if array.null_count or pa.types.is_floating(array.type):
        return None
    ends = pc.min_max(array)
    return _python(column, pa.array([ends["min"].as_py(), ends["max"].as_py()], array.type))


def _python(column: Column, array: pa.Array) -> list[Any] | None:
    """Return at most a few values as constants of a comparison; None if one has no such form (an infinite date)."""
    if column.type_oid == datatypes.TIME and pc.any(pc.equal(array.cast(pa.int64()), _MIDNIGHT)).as_py():
        return None  # 24:00, which Python does not have
    try:
        values: list[Any] = array.to_pylist()
    except (OverflowError, ValueError):
        return None
    if column.type_oid == datatypes.UUID:
        return [UUID(value) for value in values]
    if column.type_oid in (datatypes.FLOAT4, datatypes.FLOAT8) or pa.types.is_decimal(array.type):
        return None if column.type_oid != datatypes.NUMERIC else values
    return values
