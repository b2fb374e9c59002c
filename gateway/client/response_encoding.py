"""Converts the gateway's answers, and what it makes of UTF-8 answers of the backend, to the client's encoding.

It converts texts of messages, values in text format, and binary values that are or contain texts; rows as whole
columns. As in PostgreSQL, rows before a character without an equivalent are sent before the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import pyarrow as pa

from catalog import datatypes
from catalog.errors import SluiceError, unsupported
from gateway.client.encoding import ClientEncoding, NoEquivalentError
from gateway.copy_format import BinaryReader
from gateway.copy_format.writer import BINARY_HEADER, BINARY_TRAILER, copied_tuples, line_messages
from gateway.values import Format, convert_binary
from gateway.values.binary import binary_cells
from gateway.values.cells import Mask, payload_of, valid_mask
from gateway.values.rows import data_rows
from gateway.wire.framing import Frame, RelayScanner
from gateway.wire.messages.backend import DataRow, ErrorResponse, FieldDescription, RowDescription, decode_backend
from gateway.wire.messages.copy import CopyData

_HEAD_BYTES: Final = 5
_ROWS: Final = (DataRow.type, CopyData.type)
_COUNT_BYTES: Final = 2


class Copies(Enum):
    """The content of the next CopyData: bytes to pass unchanged, lines in UTF-8, or rows in binary format."""

    AS_THEY_ARE = "as they are"
    LINES = "lines"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Described:
    """The columns and formats of the next rows; None for any number of columns in text format."""

    columns: tuple[FieldDescription, ...] | None
    copies: Copies


@dataclass(frozen=True, slots=True)
class Relayed:
    """Bytes that are in the client's encoding already."""

    data: bytes


Piece = bytes | Described | Relayed


class ResponseEncoding:
    """Use: `async for data in outgoing.converted(pieces)`; `pieces` may cut messages anywhere."""

    def __init__(self, encoding: ClientEncoding) -> None:
        self._encoding = encoding
        self._scanner = RelayScanner(())
        self._described = Described(None, Copies.AS_THEY_ARE)

    @property
    def is_needed(self) -> bool:
        """Whether the client's encoding is not UTF-8."""
        return self._encoding.converts

    async def converted(self, pieces: Sequence[Piece]) -> AsyncIterator[bytes | memoryview]:
        """The converted bytes, in order. Raises 22P05 for a character without an equivalent; in an error, 22P05
        replaces the error.
        """
        try:
            for piece in pieces:
                if isinstance(piece, Relayed):
                    yield piece.data
                elif isinstance(piece, Described):
                    self._described = piece
                else:
                    async for data in self._messages(piece):
                        yield data
        except SluiceError:
            self._scanner = RelayScanner(())  # the rest of an incomplete message will not come
            raise

    async def _messages(self, piece: bytes) -> AsyncIterator[bytes | memoryview]:
        rows: list[Frame] = []
        for frame in self._scanner.feed(piece):
            assert isinstance(frame, Frame)
            if rows and rows[-1].type != frame.type:
                async for data in self._rows(rows):
                    yield data
                rows = []
            if frame.type in _ROWS:
                rows.append(frame)
            else:
                yield await self._message(frame)
        async for data in self._rows(rows):
            yield data

    async def _message(self, frame: Frame) -> bytes:
        message = decode_backend(frame.type, frame.body)
        if isinstance(message, RowDescription):
            self._described = Described(message.columns, Copies.AS_THEY_ARE)
        try:
            return await self._encoding.encoded(message)
        except SluiceError as error:
            if not isinstance(message, ErrorResponse):
                raise
            return ErrorResponse.from_error(error).encode()

    async def _rows(self, frames: Sequence[Frame]) -> AsyncIterator[bytes | memoryview]:
        """Convert a run of DataRows, or of CopyData."""
        if not frames:
            return
        described = self._described
        if frames[0].type == DataRow.type:
            async for data in self._tuples([frame.body for frame in frames], copied=False):
                yield data
        elif described.copies is Copies.LINES:
            lines = pa.array([frame.body for frame in frames], pa.binary())
            try:
                yield line_messages(await self._encoding.cells_to_client(lines))
            except NoEquivalentError as failure:
                yield line_messages(failure.converted)
                raise failure.error from failure
        elif described.copies is Copies.ROWS:
            async for data in self._copied([frame.body for frame in frames]):
                yield data
        else:
            yield b"".join(frame.data for frame in frames)

    async def _copied(self, bodies: list[bytes]) -> AsyncIterator[bytes]:
        """Convert rows of a binary COPY: the first message has the header, the last one is the trailer."""
        begins = bodies[0].startswith(BINARY_HEADER)
        bodies[0] = bodies[0][len(BINARY_HEADER) if begins else 0 :]
        ends = bodies[-1] == BINARY_TRAILER
        if begins and ends and len(bodies) == 1:
            yield CopyData(BINARY_HEADER + BINARY_TRAILER).encode()
            return
        async for rows in self._tuples(bodies[: -1 if ends else None], copied=True):
            end = int.from_bytes(rows[1:_HEAD_BYTES]) + 1
            first = CopyData(BINARY_HEADER + rows[_HEAD_BYTES:end]).encode() if begins else rows[:end]
            begins = False
            yield b"".join((first, rows[end:]))
        if ends:
            yield CopyData(BINARY_TRAILER).encode()

    async def _tuples(self, bodies: Sequence[bytes], *, copied: bool) -> AsyncIterator[bytes | memoryview]:
        """Convert rows: a number of values, and the values with their lengths. Rows before an error are returned
        before it.
        """
        if not bodies:
            return
        form = copied_tuples if copied else data_rows
        width = int.from_bytes(bodies[0][:_COUNT_BYTES])
        if not width:
            message = CopyData if copied else DataRow
            yield b"".join(bytes([message.type]) + (len(body) + 4).to_bytes(4) + body for body in bodies)
            return
        batches = await asyncio.to_thread(_values, bodies, width)
        for batch in batches:
            laid: list[tuple[pa.BinaryArray, Mask | None]] = []
            good, error = batch.num_rows, None
            for place, values in enumerate(batch.columns):
                try:
                    laid.append((await self._column(values, place), valid_mask(values)))
                except NoEquivalentError as failure:
                    laid.append((failure.converted, valid_mask(values)))
                    if len(failure.converted) < good:
                        good, error = len(failure.converted), failure.error
            if good:
                cut = [(cells.slice(0, good), None if valid is None else valid[:good]) for cells, valid in laid]
                yield await asyncio.to_thread(form, cut)
            if error is not None:
                raise error

    async def _column(self, values: pa.BinaryArray, place: int) -> pa.BinaryArray:
        columns = self._described.columns
        column = None if columns is None else columns[place]
        whole = values.fill_null(b"") if values.null_count else values
        is_text: bool | None = column is None or column.format == Format.TEXT
        if column is not None and not is_text:
            is_text = await self._encoding.has_texts(column.type_oid)
            if is_text is None and (payload_of(whole) & 0x80).any():
                return await self._with_texts_inside(values, column.type_oid)
        return await self._encoding.cells_to_client(whole) if is_text else whole

    async def _with_texts_inside(self, values: pa.BinaryArray, type_oid: int) -> pa.BinaryArray:
        """Convert binary values that contain texts: arrays of texts are made again."""
        element = datatypes.element_type(type_oid)
        converted = None if element is None else convert_binary(values, type_oid, -1, from_postgres=True)
        if converted is None or element is None or (converted.refused is not None and converted.refused.true_count):
            raise unsupported(
                f"binary output of the type with OID {type_oid} while client_encoding is {self._encoding.name}"
            )
        lists = converted.array
        try:
            texts = await self._encoding.cells_to_client(lists.values.cast(pa.binary()))
        except NoEquivalentError as failure:
            ends = lists.offsets.to_numpy()[1:]
            good = int(np.searchsorted(ends, len(failure.converted), side="right"))
            before = await self._with_texts_inside(values.slice(0, good), type_oid)
            raise NoEquivalentError(before, failure.error) from failure
        bitmap = lists.values.is_valid()
        packed = np.packbits(bitmap.to_numpy(zero_copy_only=False), bitorder="little")
        elements = pa.Array.from_buffers(pa.string(), len(texts), [pa.py_buffer(packed), *texts.buffers()[1:]])
        made = pa.ListArray.from_arrays(lists.offsets, elements)
        return binary_cells(made, type_oid)


def _values(bodies: Sequence[bytes], width: int) -> list[pa.RecordBatch]:
    """The values of rows, undecoded. Blocking."""
    reader = BinaryReader([str(place) for place in range(width)])
    batches = [*reader.feed(b"".join((BINARY_HEADER, *bodies, BINARY_TRAILER))), *reader.finish()]
    return [batch.fields for batch in batches]
