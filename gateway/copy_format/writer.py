"""COPY … TO STDOUT: record batches to CopyData messages, one per row as PostgreSQL sends them.

Clients read COPY row by row from messages (psycopg's `rows()` relies on it), so the messages' heads are just another
column of pieces. Source: copyto.c, `CopyAttributeOutText`, `CopyAttributeOutCSV`, `CopyToBinaryStart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog import datatypes
from catalog.errors import SluiceError, SqlState
from gateway.copy_format.options import CopyFormat, CopyOptions, Header
from gateway.values.binary import binary_cells
from gateway.values.cells import Mask, fixed, joined, lengths_of, merged, overlaid, payload_of, take, valid_mask
from gateway.values.escape import ByteTable, contains
from gateway.values.rows import check_message_length, length_prefixed, slices_of
from gateway.values.settings import OutputSettings, ResultColumn
from gateway.values.text import text_cells
from gateway.wire.messages.copy import CopyData

BINARY_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
BINARY_HEADER: Final = BINARY_SIGNATURE + bytes(8)  # no flags, no extension
BINARY_TRAILER: Final = b"\xff\xff"
_BINARY_HEAD: Final = np.dtype([("type", "u1"), ("length", ">i4"), ("columns", ">i2"), ("first", ">i4")])
_TEXT_HEAD: Final = np.dtype([("type", "u1"), ("length", ">i4")])
# Types whose text never holds a byte that COPY escapes, unless it is the delimiter.
_PLAIN_BYTES: Final = frozenset(b"0123456789+-.:eE abcdfghilmnorstuvyINaPMTADJOWS/")
_PLAIN_TYPES: Final = frozenset({
    datatypes.BOOL, datatypes.INT2, datatypes.INT4, datatypes.INT8, datatypes.OID, datatypes.FLOAT4, datatypes.FLOAT8,
    datatypes.NUMERIC, datatypes.DATE, datatypes.TIME, datatypes.UUID,
})  # fmt: skip


class CopyWriter:
    """`rows(batch)` for each batch, then `finish()`: whole CopyData messages, to be sent as they are."""

    def __init__(
        self, options: CopyOptions, columns: Sequence[ResultColumn], names: Sequence[str], settings: OutputSettings
    ) -> None:
        self._options = options
        self._columns = columns
        self._names = names
        self._settings = settings
        self._begun = False
        self._escapes = ByteTable(_text_escapes(options.delimiter))
        self._quoted = np.zeros(256, np.bool_)
        self._quoted[[*options.delimiter, *options.quote, *b"\r\n"]] = True
        self._doubled = ByteTable({byte: options.escape + bytes([byte]) for byte in options.quote + options.escape})

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """All rows of the batch, before the first of them the header line or the file header."""
        parts: list[bytes | memoryview] = []
        for part in slices_of(batch):
            if self._options.format is CopyFormat.BINARY:
                parts.append(self._binary_slice(part))
            else:
                parts += [CopyData(line).encode() for line in self._header_lines()]
                parts.append(self._text_slice(part))
        return b"".join(parts)

    def lines(self, batch: pa.RecordBatch | None) -> pa.BinaryArray:
        """In text and csv, what the messages hold: one line for each row, before the first of them the header line.
        None stands for the end."""
        parts = [] if batch is None else [self._text_lines(part) for part in slices_of(batch)]
        header = self._header_lines()
        return pa.concat_arrays([pa.array(header, pa.binary()), *parts])

    def finish(self) -> bytes:
        """What is sent after the last row: nothing in text and csv, but for a header that had no rows to go before."""
        if self._options.format is not CopyFormat.BINARY:
            return b"".join(CopyData(line).encode() for line in self._header_lines())
        begun, self._begun = self._begun, True
        return CopyData((b"" if begun else BINARY_HEADER) + BINARY_TRAILER).encode()

    def _binary_slice(self, batch: pa.RecordBatch) -> memoryview | bytes:
        if not self._columns:
            return self._first_binary(CopyData(b"\0\0").encode() * int(batch.num_rows))
        laid = [
            (binary_cells(array, column.type_oid, column.element_oid), valid_mask(array))
            for array, column in zip(batch.columns, self._columns, strict=True)
        ]
        return self._first_binary(copied_tuples(laid))

    def _first_binary(self, rows: memoryview | bytes) -> memoryview | bytes:
        """The file header is sent in the message of the first row."""
        if self._begun:
            return rows
        self._begun = True
        first = int.from_bytes(rows[1:5]) + 1
        return CopyData(BINARY_HEADER + rows[5:first]).encode() + rows[first:]

    def _header_lines(self) -> list[bytes]:
        begun, self._begun = self._begun, True
        if begun or self._options.header is Header.FALSE:
            return []
        names = [
            self._escaped(pa.array([name.encode()], pa.binary()), datatypes.TEXT, force=False) for name in self._names
        ]
        return [self._options.delimiter.join([name[0].as_py() for name in names]) + b"\n"]

    def _text_slice(self, batch: pa.RecordBatch) -> memoryview | bytes:
        rows, width = batch.num_rows, len(self._columns)
        if width == 0:  # Spark gives one column nevertheless, which has no name
            return CopyData(b"\n").encode() * int(rows)
        pieces, index, total = self._text_pieces(batch)
        head = np.empty(rows, _TEXT_HEAD)
        head["type"], head["length"] = CopyData.type, total
        return payload_of(take(pa.concat_arrays([fixed(head), *pieces]), index.ravel())).data

    def _text_lines(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        rows, width = batch.num_rows, len(self._columns)
        if width == 0:
            return pa.array([b"\n"] * rows, pa.binary())
        pieces, index, _ = self._text_pieces(batch)
        bounds = np.arange(0, 2 * width * rows + 1, 2 * width)
        return merged(pa.concat_arrays(pieces), index[:, 1:].ravel() - rows, bounds)

    def _text_pieces(
        self, batch: pa.RecordBatch
    ) -> tuple[list[pa.BinaryArray], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """What the rows are made of, but for the messages' heads, which stand before it; in which order; and how long
        the messages are."""
        rows, width = batch.num_rows, len(self._columns)
        if batch.num_columns != width:
            raise SluiceError(SqlState.INTERNAL_ERROR, f"COPY of {batch.num_columns} columns as {width}")
        pieces: list[pa.BinaryArray] = []
        index = _row_index(rows, width)
        null = (width + 1) * rows + 2
        total = np.full(rows, 4 + width, np.int64)
        for place, (array, column) in enumerate(zip(batch.columns, self._columns, strict=True)):
            valid = valid_mask(array)
            cells = text_cells(array, column.type_oid, self._settings)
            cells = self._escaped(cells, column.type_oid, force=place in self._options.force_quote)
            pieces.append(cells)
            if valid is None:
                total += lengths_of(cells)
            else:
                index = index if index.flags.writeable else index.copy()
                index[~valid, 2 * place + 1] = null
                total += np.where(valid, lengths_of(cells), len(self._null))
        check_message_length(total)
        pieces.append(pa.array([self._options.delimiter, b"\n", self._null], pa.binary()))
        return pieces, index, total

    @property
    def _null(self) -> bytes:
        return self._options.null.encode()

    def _escaped(self, cells: pa.BinaryArray, type_oid: int, *, force: bool) -> pa.BinaryArray:
        if self._options.format is CopyFormat.CSV:
            return self._csv_quoted(cells, force=force)
        if type_oid in _PLAIN_TYPES and self._options.delimiter[0] not in _PLAIN_BYTES:
            return cells
        return self._escapes.apply(cells)

    def _csv_quoted(self, cells: pa.BinaryArray, *, force: bool) -> pa.BinaryArray:
        lengths = lengths_of(cells)
        needed: Mask = np.full(len(cells), force)
        if not force:
            found = contains(cells, self._quoted)
            needed = np.zeros(len(cells), np.bool_) if found is None else found
            for word in [self._null, *([b"\\."] if len(self._columns) == 1 else [])]:
                same = lengths == len(word)
                if same.any():
                    places = np.flatnonzero(same)
                    equal = pc.fill_null(pc.equal(cells.take(pa.array(places)), word), False).to_numpy(
                        zero_copy_only=False
                    )
                    needed[places[equal]] = True
        if not needed.any():
            return cells
        places = np.flatnonzero(needed)
        quote = self._options.quote
        return overlaid(cells, places, joined(quote, self._doubled.apply(cells.take(pa.array(places))), quote))


def copied_tuples(laid: Sequence[tuple[pa.BinaryArray, Mask | None]]) -> memoryview:
    """A CopyData for each row of columns of binary values."""
    return length_prefixed(laid, _BINARY_HEAD, CopyData.type)


def line_messages(lines: pa.BinaryArray) -> bytes:
    """A CopyData for each line."""
    total = lengths_of(lines).astype(np.int64) + 4
    if not len(total):
        return b""
    check_message_length(total)
    head = np.empty(len(lines), _TEXT_HEAD)
    head["type"], head["length"] = CopyData.type, total
    return payload_of(joined(fixed(head), lines)).tobytes()


def _text_escapes(delimiter: bytes) -> dict[int, bytes]:
    named = dict(zip(b"\b\f\n\r\t\v", (b"\\b", b"\\f", b"\\n", b"\\r", b"\\t", b"\\v"), strict=True))
    return {delimiter[0]: b"\\" + delimiter, **named, ord("\\"): b"\\\\"}


@lru_cache(maxsize=16)
def _row_index(rows: int, width: int) -> npt.NDArray[np.int32]:
    """Head, value, delimiter, value … newline, in: heads, the columns, delimiter, newline, null."""
    index = np.empty((rows, 2 * width + 1), np.int32)
    numbers = np.arange(rows, dtype=np.int32)
    index[:, 0] = numbers
    index[:, 1::2] = numbers[:, None] + np.arange(1, width + 1, dtype=np.int32) * rows
    index[:, 2::2] = (width + 1) * rows
    index[:, -1] = (width + 1) * rows + 1
    index.flags.writeable = False
    return index
