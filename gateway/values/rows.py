"""Rows put together from columns of cells: DataRow frames.

A DataRow is `D`, the length of what follows itself included, the number of values, and for each value its length (-1
for null) and its bytes. All the lengths are columns of four bytes; one `take` then copies head, value, length, value,
… of one row after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.values.binary import binary_cells
from gateway.values.cells import Mask, as_binary, fixed, lengths_of, payload_of, take, valid_mask
from gateway.values.forms import WRITTEN
from gateway.values.settings import Format, OutputSettings, ResultColumn
from gateway.values.text import text_cells
from gateway.wire.messages.backend import DataRow

# Rows made at a time: pieces and result stay in the processor's cache, and far below Arrow's 2 GB for an array.
_SLICE_ROWS: Final = 1 << 14
_SLICE_VALUES: Final = 1 << 20
_SLICE_BYTES: Final = 1 << 27
_HEAD: Final = np.dtype([("type", "u1"), ("length", ">i4"), ("columns", ">i2"), ("first", ">i4")])
_HEAD_NO_COLUMNS: Final = DataRow(()).encode()


def encode_rows(batch: pa.RecordBatch, columns: Sequence[ResultColumn], settings: OutputSettings) -> bytes:
    """The DataRow frames of all rows of `batch`, in order, as one run of bytes.

    Raises 0A000 for a type that lake tables do not have, or a form of text output that Sluice does not have.
    """
    if not columns:  # Spark gives one column nevertheless, which has no name
        return _HEAD_NO_COLUMNS * int(batch.num_rows)
    if batch.num_columns != len(columns):
        raise SluiceError(
            SqlState.INTERNAL_ERROR, f"a result of {batch.num_columns} columns was described as {len(columns)}"
        )
    return b"".join([_encode_slice(part, columns, settings) for part in slices_of(batch)])


def slices_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of bounded rows and bytes (but at least one row)."""
    if not batch.num_rows:
        return
    by_bytes = _SLICE_BYTES * batch.num_rows // max(1, batch.get_total_buffer_size())
    rows = max(1, min(_SLICE_ROWS, _SLICE_VALUES // max(1, batch.num_columns), by_bytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def column_cells(array: pa.Array, column: ResultColumn, settings: OutputSettings) -> pa.BinaryArray:
    """One column in the format that was asked for."""
    if array.type == WRITTEN:
        written = array.field("binary" if column.format == Format.BINARY else "text")
        if written.null_count > array.null_count:
            raise unsupported(f"binary output of the type with OID {column.type_oid}")
        return as_binary(written)
    if column.format == Format.BINARY:
        return binary_cells(array, column.type_oid)
    return text_cells(array, column.type_oid, settings)


def _encode_slice(batch: pa.RecordBatch, columns: Sequence[ResultColumn], settings: OutputSettings) -> memoryview:
    laid = [
        (column_cells(array, column, settings), valid_mask(array))
        for array, column in zip(batch.columns, columns, strict=True)
    ]
    return data_rows(laid)


def data_rows(laid: Sequence[tuple[pa.BinaryArray, Mask | None]]) -> memoryview:
    """A DataRow for each row of columns of cells."""
    return length_prefixed(laid, _HEAD, DataRow.type)


def length_prefixed(laid: Sequence[tuple[pa.BinaryArray, Mask | None]], head_form: Any, type_byte: int) -> memoryview:
    """Rows of (length, bytes) for each value, after a head of the form `head_form`: `type` and `length` of the message,
    the number of `columns`, and the `first` value's length."""
    rows, width = len(laid[0][0]), len(laid)
    lengths: list[npt.NDArray[Any]] = []
    total = np.full(rows, head_form.itemsize - 1 + 4 * (width - 1), np.int64)
    index = _row_index(rows, width)
    if any(valid is not None for _, valid in laid):
        index = index.copy()
    for place, (values, valid) in enumerate(laid):
        length = lengths_of(values)
        if valid is not None:
            total += np.where(valid, length, 0)
            length = np.where(valid, length, -1)
            index[~valid, 2 * place + 1] = 2 * width * rows  # the empty piece
        else:
            total += length
        lengths.append(length)
    check_message_length(total)
    head = np.empty(rows, head_form)
    head["type"], head["length"], head["columns"], head["first"] = type_byte, total, width, lengths[0]
    prefixes = [fixed(head), *(fixed(length.astype(">i4")) for length in lengths[1:])]
    pieces = [piece for prefix, (values, _) in zip(prefixes, laid, strict=True) for piece in (prefix, values)]
    pieces.append(pa.array([b""], pa.binary()))
    return payload_of(take(pa.concat_arrays(pieces), index.ravel())).data


def check_message_length(total: npt.NDArray[np.int64]) -> None:
    """Raises 54000 where a row is more than a message can hold."""
    if int(total.max()) > 2**31 - 1:
        raise SluiceError(SqlState.PROGRAM_LIMIT_EXCEEDED, "a row does not fit into one message")


@lru_cache(maxsize=16)
def _row_index(rows: int, width: int) -> npt.NDArray[np.int32]:
    """Row by row, the places of head, value, length, value … in the columns laid end to end."""
    index = np.arange(rows, dtype=np.int32)[:, None] + np.arange(2 * width, dtype=np.int32) * rows
    index.flags.writeable = False
    return index
