"""Cells: a column of byte strings in Arrow's binary layout (offsets, bytes), and the few ways to make new ones.

Everything that Sluice writes for a client is put together from pieces of such columns by one kernel, Arrow's `take`,
which copies pieces in the order of an index; nothing here loops over values. Under a null a cell may hold anything:
who writes rows asks the source column which values are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError, SqlState

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Arrow's 32-bit offsets.
BYTES_MAX: Final = 2**31 - 1


def cells(offsets: npt.NDArray[Any], data: npt.NDArray[Any]) -> pa.BinaryArray:
    """From n + 1 offsets and the bytes that they point into."""
    if len(offsets) and int(offsets[-1]) > BYTES_MAX:
        raise SluiceError(SqlState.PROGRAM_LIMIT_EXCEEDED, "a batch of values does not fit into 2 GB")
    buffers = [
        None,
        *(pa.py_buffer(np.ascontiguousarray(part)) for part in (offsets.astype(np.int32, copy=False), data)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed(matrix: npt.NDArray[Any]) -> pa.BinaryArray:
    """From records or rows of one size: a structured array of n, or a matrix of n by bytes."""
    count = len(matrix)
    size = matrix.itemsize * (matrix.shape[1] if matrix.ndim == 2 else 1)
    return cells(np.arange(0, count * size + 1, size, dtype=np.int64) if size else np.zeros(count + 1), matrix)


def gapped(data: npt.NDArray[Any], begin: Integers, end: Integers) -> pa.BinaryArray:
    """2 n cells: at even places the bytes begin[i] … end[i] of `data`, at odd ones what is between these and the next.
    They must follow one another without overlap."""
    offsets = np.empty(2 * len(begin) + 1, np.int32 if len(data) <= BYTES_MAX else np.int64)
    offsets[:-1:2] = begin
    offsets[1::2] = end
    offsets[-1] = offsets[-2] if len(begin) else 0
    return cells(offsets, data)


def slices(data: npt.NDArray[Any], begin: Integers, end: Integers) -> pa.BinaryArray:
    """From the bytes begin[i] … end[i] of `data`, which must follow one another without overlap."""
    return take(gapped(data, begin, end), np.arange(0, 2 * len(begin), 2, dtype=np.int32))


def ragged(matrix: Bytes, begin: Integers | int, end: Integers | int) -> pa.BinaryArray:
    """From a matrix of n by width bytes, of whose row i the bytes begin[i] … end[i] count."""
    count, width = matrix.shape
    rows = np.arange(count, dtype=np.int64) * width
    return slices(matrix, rows + begin, rows + end)


def take(source: pa.BinaryArray, index: npt.NDArray[Any]) -> pa.BinaryArray:
    """The pieces of `source` that `index` names, copied one after another."""
    return pc.take(source, pa.array(index.astype(np.int32, copy=False)), boundscheck=False)


def offsets_of(array: pa.BinaryArray | pa.StringArray) -> npt.NDArray[np.int32]:
    """The n + 1 offsets into the array's data buffer."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4) if len(array) else _NO_OFFSETS


_NO_OFFSETS: Final = np.zeros(1, np.int32)
_NO_BYTES: Final = np.zeros(0, np.uint8)


def data_of(array: pa.BinaryArray | pa.StringArray) -> Bytes:
    """The whole data buffer that `offsets_of` points into."""
    buffer = array.buffers()[2]
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def payload_of(array: pa.BinaryArray) -> Bytes:
    """The bytes of all cells together."""
    offsets = offsets_of(array)
    return data_of(array)[offsets[0] : offsets[-1]]


def lengths_of(array: pa.BinaryArray | pa.StringArray) -> npt.NDArray[np.int32]:
    """The length of each cell in bytes; under a null, of whatever lies there."""
    return np.diff(offsets_of(array))


def as_binary(array: pa.Array) -> pa.BinaryArray:
    """Any of Arrow's string or binary forms as cells with 32-bit offsets."""
    if pa.types.is_binary(array.type):
        return array
    if pa.types.is_string(array.type):
        return array.view(pa.binary())
    return array.cast(pa.binary())


def valid_mask(array: pa.Array) -> Mask | None:
    """Which values are not null; None where all are."""
    if array.null_count == 0:
        return None
    return pc.is_valid(array).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def integers_of(array: pa.Array, width: Any = np.int64) -> npt.NDArray[Any]:
    """The numbers in the array's own buffer, as `width`; 0 under nulls, where Arrow leaves anything."""
    if array.null_count:
        array = array.fill_null(0) if not pa.types.is_temporal(array.type) else _fill_temporal(array)
    if not len(array):
        return np.zeros(0, width)
    size = np.dtype(width).itemsize
    return np.frombuffer(array.buffers()[1], width, len(array), array.offset * size)


def _fill_temporal(array: pa.Array) -> pa.Array:
    number = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return array.view(number).fill_null(0)


def choose(values: Sequence[bytes], index: npt.NDArray[Any]) -> pa.BinaryArray:
    """values[index[i]] for each i."""
    return take(pa.array(list(values), pa.binary()), index)


def joined(*columns: pa.BinaryArray | bytes) -> pa.BinaryArray:
    """Cell by cell, the columns' bytes one after another; a `bytes` stands for a column of it. None may hold nulls."""
    arrays = [column for column in columns if not isinstance(column, bytes)]
    count = len(arrays[0])
    starts, total, pieces = [], 0, []
    for column in columns:
        piece = pa.array([column], pa.binary()) if isinstance(column, bytes) else column
        starts.append(total)
        total += len(piece)
        pieces.append(piece)
    index = np.empty((count, len(columns)), np.int32)
    rows = np.arange(count, dtype=np.int32)
    for place, (column, start) in enumerate(zip(columns, starts, strict=True)):
        index[:, place] = start if isinstance(column, bytes) else rows + start
    return merged(pa.concat_arrays(pieces), index.ravel(), np.arange(0, index.size + 1, len(columns), dtype=np.int64))


def merged(pieces: pa.BinaryArray, index: npt.NDArray[Any], bounds: npt.NDArray[Any]) -> pa.BinaryArray:
    """Pieces put together: cell i is the pieces index[bounds[i]] … index[bounds[i + 1]] in order."""
    taken = take(pieces, index)
    return cells(offsets_of(taken)[bounds] - offsets_of(taken)[0], payload_of(taken))


def where(present: Mask, array: pa.BinaryArray) -> pa.BinaryArray:
    """The cells that are `present`, the others empty."""
    if present.all():
        return array
    index = np.arange(len(array), dtype=np.int32)
    index[~present] = len(array)
    return take(pa.concat_arrays([array, pa.array([b""], pa.binary())]), index)


def overlaid(base: pa.BinaryArray, places: npt.NDArray[Any], patch: pa.BinaryArray) -> pa.BinaryArray:
    """`base` with the cells at `places` taken from `patch`, one for each place."""
    index = np.arange(len(base), dtype=np.int32)
    index[places] = np.arange(len(base), len(base) + len(patch), dtype=np.int32)
    return take(pa.concat_arrays([base, patch]), index)


def padded_matrix(array: pa.BinaryArray, width: int, *, right: bool = False) -> Bytes:
    """n by width bytes: each cell's first `width` bytes, left (or `right`, then its last) justified, zeros around."""
    offsets = offsets_of(array).astype(np.int64)
    data = data_of(array)
    column = np.arange(width)
    if right:
        place = offsets[1:, None] - width + column
        inside = place >= offsets[:-1, None]
    else:
        place = offsets[:-1, None] + column
        inside = place < offsets[1:, None]
    if not len(data):
        return np.zeros((len(array), width), np.uint8)
    matrix: Bytes = data[np.clip(place, 0, len(data) - 1)]
    matrix[~inside] = 0
    return matrix
