"""COPY … FROM STDIN in binary: bytes as they come to record batches of binary values.

Rows of one layout, fixed lengths and no nulls, are found by comparing their heads with the first one's, all at once.
Where lengths vary there is no other way to the next length than through the one before: this is the one place with a
loop over fields (about 8 million of them a second on one core); values are still cut out column by column.

Source: PostgreSQL documentation, COPY, "Binary Format"; `CopyFromBinaryOneRow` in copyfromparse.c.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.copy_format.fields import CopyBatch, Source, bad_format, line_context
from gateway.copy_format.reader import BATCH_BYTES
from gateway.copy_format.writer import BINARY_SIGNATURE
from gateway.values.cells import Integers, slices

_COUNT: Final = struct.Struct("!h")
_LENGTH: Final = struct.Struct("!i")
_HEADER_BYTES: Final = len(BINARY_SIGNATURE) + 8
_CRITICAL_FLAGS: Final = 0xFFFF0000
_HAS_OIDS: Final = 1 << 16
_ROW_BYTES_MAX: Final = 0x3FFF_FFFF
_FIELD_BYTES_MAX: Final = 0x3FFF_FFFF
# A run of rows alike is looked for this often.
_PROBE_ROWS: Final = 64


class BinaryReader:
    """As `TextReader`, with the same CopyBatch; `lines` are row numbers."""

    def __init__(self, names: Sequence[str], relation: str = "", batch_bytes: int = BATCH_BYTES) -> None:
        if not names:
            raise unsupported("COPY into a table without columns")
        self._names = list(names)
        self._relation = relation
        self._batch_bytes = batch_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = batch_bytes
        self._header_due = True
        self._ended = False
        self._row = 0

    def feed(self, data: bytes) -> Iterator[CopyBatch]:
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= self._wanted or (self._ended and data):
            yield from self._read(final=False)

    def rest(self) -> Iterator[CopyBatch]:
        if self._size:
            yield from self._read(final=False)

    def finish(self) -> Iterator[CopyBatch]:
        yield from self._read(final=True)
        # PostgreSQL does not insist on the trailer.
        if not self._ended and self._size >= _COUNT.size:
            raise bad_format("unexpected EOF in COPY data", self._context(self._row + 1))

    def _read(self, *, final: bool) -> Iterator[CopyBatch]:
        data = b"".join(self._pieces)
        place = 0
        if self._header_due:
            place = self._header(data, final=final)
            if place < 0:
                self._pieces, self._size = [data], len(data)
                return
            self._header_due = False
        if not self._ended:
            place, batch, fault = self._rows(data, place)
            if batch is not None:
                yield batch
            if fault is not None:
                raise fault
        if self._ended and place < len(data):
            raise bad_format("received copy data after EOF marker", self._context(self._row + 1))
        rest = data[place:]
        if len(rest) > _ROW_BYTES_MAX:
            raise SluiceError(SqlState.PROGRAM_LIMIT_EXCEEDED, "a row of COPY data is longer than 1 GB")
        self._pieces, self._size = [rest], len(rest)
        self._wanted = max(self._batch_bytes, 2 * len(rest))

    def _context(self, row: int) -> str:
        return line_context(self._relation, row)

    def _header(self, data: bytes, *, final: bool) -> int:
        """Where the rows begin; -1 where more bytes are needed."""
        context = self._context(0)
        if not data.startswith(BINARY_SIGNATURE[: len(data)]) or (final and len(data) < len(BINARY_SIGNATURE)):
            raise bad_format("COPY file signature not recognized", context)
        if len(data) < _HEADER_BYTES - 4:
            if final:
                raise bad_format("invalid COPY file header (missing flags)", context)
            return -1
        # PostgreSQL judges the flags before it reads on.
        (flags,) = struct.unpack_from("!I", data, len(BINARY_SIGNATURE))
        if flags & _HAS_OIDS:
            raise bad_format("invalid COPY file header (WITH OIDS)", context)
        if flags & _CRITICAL_FLAGS:
            raise bad_format("unrecognized critical flags in COPY file header", context)
        if len(data) < _HEADER_BYTES:
            if final:
                raise bad_format("invalid COPY file header (missing length)", context)
            return -1
        (extension,) = struct.unpack_from("!i", data, _HEADER_BYTES - 4)
        if extension < 0:
            raise bad_format("invalid COPY file header (missing length)", context)
        if len(data) < _HEADER_BYTES + extension:
            if final:
                raise bad_format("invalid COPY file header (wrong length)", context)
            return -1
        return _HEADER_BYTES + int(extension)

    def _rows(self, data: bytes, place: int) -> tuple[int, CopyBatch | None, SluiceError | None]:
        """The place after the last whole row; the rows; and what is wrong with the next one."""
        parts: list[tuple[Integers, Integers]] = []
        begins: list[int] = []
        lengths: list[int] = []
        rows = 0
        probe = 0
        fault: SluiceError | None = None
        try:
            while (row := self._row_at(data, place, self._row + rows + 1)) is not None:
                row_begins, row_lengths, end = row
                begins += row_begins
                lengths += row_lengths
                rows += 1
                size, place = end - place, end
                if rows > probe:
                    probe = rows + _PROBE_ROWS
                    alike = _alike(data, end - size, end, row_begins) - 1
                    if alike > 0:
                        parts.append((np.array(begins, np.int64), np.array(lengths, np.int64)))
                        begins, lengths = [], []
                        steps = np.arange(1, alike + 1, dtype=np.int64)[:, None] * size
                        repeated = np.tile(np.array(row_lengths, np.int64), alike)
                        parts.append(((np.array(row_begins, np.int64) + steps).ravel(), repeated))
                        rows += alike
                        place += alike * size
        except SluiceError as error:
            fault = error
        if self._ended:
            place += 2
        if rows == 0:
            return place, None, fault
        parts.append((np.array(begins, np.int64), np.array(lengths, np.int64)))
        batch = self._batch(data, *(np.concatenate(column) for column in zip(*parts, strict=True)))
        return place, batch, fault

    def _row_at(self, data: bytes, place: int, number: int) -> tuple[list[int], list[int], int] | None:
        """Where the row's values begin, how long they are, and where the row ends; None where it is not all there,
        or is the trailer."""
        if place + 2 > len(data):
            return None
        (count,) = _COUNT.unpack_from(data, place)
        if count == -1:
            self._ended = True
            return None
        if count != len(self._names):
            raise bad_format(f"row field count is {count}, expected {len(self._names)}", self._context(number))
        place += 2
        begins, lengths = [], []
        last = len(data) - 4
        unpack = _LENGTH.unpack_from
        for _ in range(count):
            if place > last:
                return None
            (length,) = unpack(data, place)
            place += 4
            begins.append(place)
            lengths.append(length)
            if length > 0:
                place += length
                if length >= _FIELD_BYTES_MAX:
                    raise self._too_long(length, number)
            elif length < -1:
                raise bad_format("invalid field size", self._context(number))
        return (begins, lengths, place) if place <= len(data) else None

    def _too_long(self, length: int, number: int) -> SluiceError:
        error = SluiceError(
            SqlState.PROGRAM_LIMIT_EXCEEDED,
            f"string buffer exceeds maximum allowed length ({_FIELD_BYTES_MAX} bytes)",
            detail=f"Cannot enlarge string buffer containing 0 bytes by {length} more bytes.",
        )
        error.fields["W"] = self._context(number)
        return error

    def _batch(self, data: bytes, begins: Integers, lengths: Integers) -> CopyBatch:
        width = len(self._names)
        rows = len(begins) // width
        block = np.frombuffer(data, np.uint8)
        columns = []
        for place in range(width):
            begin, length = begins[place::width], lengths[place::width]
            values = slices(block, begin, begin + np.maximum(length, 0))
            buffers = values.buffers()
            null = length < 0
            validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
            columns.append(pa.Array.from_buffers(pa.binary(), rows, [validity, *buffers[1:]]))
        numbers = pa.array(np.arange(self._row + 1, self._row + rows + 1, dtype=np.int64))
        self._row += rows
        fields = pa.RecordBatch.from_arrays(columns, names=self._names)
        heads = begins[::width] - (_COUNT.size + _LENGTH.size)
        ends = begins[width - 1 :: width] + np.maximum(lengths[width - 1 :: width], 0)
        return CopyBatch(fields, (None,) * width, numbers, Source(block, heads, ends))


def _alike(data: bytes, begin: int, end: int, fields: list[int]) -> int:
    """How many rows from `begin` on have the very heads (count, lengths) of the row begin … end."""
    size = end - begin
    count = (len(data) - begin) // size
    if count < 2:
        return count
    block = np.frombuffer(data, np.uint8, count * size, begin).reshape(count, size)
    heads = np.array([0, 1, *(place - begin - back for place in fields for back in (4, 3, 2, 1))])
    same = (block[:, heads] == block[0, heads]).all(axis=1)
    return count if same.all() else int(np.argmin(same))
