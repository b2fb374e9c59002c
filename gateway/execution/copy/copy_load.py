"""Loads the data of a COPY … FROM STDIN into Parquet: bytes to whole Arrow columns, in bounded memory.

Values in canonical form are converted column by column. Rows with other values (an unusual date, a forbidden NULL, a
value out of range) go unchanged into the shadow, where PostgreSQL accepts, skips or refuses them. Tables with CHECK
constraints, omitted columns with defaults, or a WHERE condition send all rows through the shadow.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import BPCHAR, BY_OID, JSON, JSONB, TEXT, VARCHAR
from catalog.errors import SluiceError
from catalog.model import Column, Table
from catalog.store import TableRules
from gateway.backend.copies import copy_data, copy_in
from gateway.copy_format import BinaryReader, CopyBatch, CopyFormat, CopyOptions, LineNumbers, TextReader
from gateway.execution.constraints.exclusion_check import ExclusionError
from gateway.execution.constraints.unique_check import DuplicateKeyError
from gateway.execution.copy.copy_encoding import LOOK, Decoder
from gateway.execution.copy.skipped_rows import SAY_ALL, SkippedRows
from gateway.execution.shadow.function_guard import guarding_functions
from gateway.execution.shadow.shadow import COPY_HEADER, COPY_TRAILER, begin_shadow, qualified, take_shadow_rows
from gateway.values import convert_binary, convert_text
from gateway.values.cells import Mask, as_binary, payload_of
from gateway.wire.messages.backend import NoticeResponse
from planner.syntax.lexer import quoted
from storage.parquet.arrow_types import arrow_schema
from storage.spark.async_parquet_writer import WriterAside
from storage.spark.write import WriteResult

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

Reader = TextReader | BinaryReader
_WITHOUT_TEXTS: Final = frozenset(BY_OID) - {TEXT, JSON, BPCHAR, VARCHAR, JSONB}
# Rows that go to the shadow at a time; it holds them only until they are read back.
_SHADOW_ROWS: Final = 50_000
# Of so many rows of a table with a sort key it is known which line of the data each comes from.
_ORDER_ROWS_MAX: Final = 4_000_000


class CopyLoad:
    """`run` loads all of the data."""

    def __init__(
        self,
        session: SessionContext,
        table: Table,
        kept: TableRules,
        columns: Sequence[Column],
        options: CopyOptions,
        *,
        time_zone: str,
        functions: Collection[int],
        encoding: str | None,
        condition: str | None,
    ) -> None:
        """`functions` are the user-defined functions that PostgreSQL runs for rows; `encoding` is the data's if it is
        not UTF-8, `condition` that of WHERE.
        """
        self._session = session
        self._table = table
        self._columns = columns
        self._names = [column.name for column in columns]
        self._options = options
        self._zone = time_zone
        self._encoding = encoding
        # In binary format, PostgreSQL reads texts in the client's encoding.
        self._foreign = encoding is not None and options.format is CopyFormat.BINARY
        self._condition = condition
        given = {column.attnum for column in columns}
        left = [column for column in table.columns if column.attnum not in given]
        self._by_shadow = bool(kept.checks) or any(
            column.attnum in kept.defaults or column.attnum in kept.identity or not column.nullable for column in left
        )
        self._by_shadow = self._by_shadow or bool(kept.generated) or condition is not None
        self._by_shadow = self._by_shadow or any(
            column.carried or column.user_array or (column.domain and (column.domain.rules or column.domain.defaulted))
            for column in table.columns
        )
        self._without_default = [
            place
            for place, column in enumerate(columns)
            if column.attnum not in kept.defaults and column.attnum not in kept.identity
        ]
        self._functions = functions
        self._storing: asyncio.Task[None] | None = None
        self._backend = asyncio.Lock()  # the session's backend converts data while it judges earlier rows
        self._lines = LineNumbers()
        self._skipped = SkippedRows(session, table.name, self._names, options)
        # PostgreSQL inserts rows one by one if a default may differ for each; its errors then quote the line too.
        self._one_by_one = any(column.attnum in kept.defaults or column.attnum in kept.identity for column in left)

    def into(self, table: Table, kept: TableRules) -> CopyLoad:
        """The same into the table's present version, with the same columns."""
        return CopyLoad(
            self._session,
            table,
            kept,
            [table.column(column.attnum) for column in self._columns],
            self._options,
            time_zone=self._zone,
            functions=self._functions,
            encoding=self._encoding,
            condition=self._condition,
        )

    async def tell_line(self, error: DuplicateKeyError | ExclusionError, result: WriteResult) -> None:
        """Add the line of the refused row to an error, if PostgreSQL would say no more."""
        if self._one_by_one:
            return
        if isinstance(error, ExclusionError):
            row = error.place(result.order)
        else:
            row = await error.place(self._session, self._table, result.data_files, result.order)
        line = None if row is None else self._lines.of(row)
        if line is not None:
            error.fields["W"] = f"COPY {self._table.name}, line {line}"

    def tell_skipped(self) -> None:
        """Report the number of skipped rows."""
        self._skipped.tell()

    async def run(self, data: AsyncIterator[bytes]) -> WriteResult:
        """Load all of the data; the files are complete on return, and removed after an error."""
        binary = self._options.format is CopyFormat.BINARY
        reader: Reader = (
            BinaryReader(self._names, self._table.name)
            if binary
            else TextReader(self._options, self._names, self._table.name, without_default=self._without_default)
        )
        await self._skipped.begin()
        decoder = None
        if self._encoding is not None and not binary:
            decoder = Decoder(self._session, self._encoding, self._backend)
        session = self._session
        async with WriterAside(
            session.gateway.data_path,
            self._table,
            session.transaction.hot_rows_max,
            sorts=True,
            order_max=_ORDER_ROWS_MAX,
        ) as writer:
            try:
                async for payload in data if decoder is None else decoder.pieces(data):
                    await (self._take(writer, reader, payload) if payload else self._look(writer, reader))
                await self._take(writer, reader, None if decoder is None else decoder.error)
            finally:
                await self._stored()  # errors of earlier rows come first
            return await writer.finish()

    async def _look(self, writer: WriterAside, reader: Reader) -> None:
        """Judge the data so far."""
        await self._take(writer, reader, LOOK)
        await self._stored()

    async def _take(self, writer: WriterAside, reader: Reader, piece: bytes | SluiceError | None) -> None:
        batches, error = await asyncio.to_thread(_batches, reader, piece)
        for batch in batches:
            await self._hand_over(writer, batch)
        if error is not None:
            raise error

    async def _hand_over(self, writer: WriterAside, batch: CopyBatch) -> None:
        """Convert and write a batch in the background, one at a time, while the next one is read."""
        await self._stored()
        self._storing = asyncio.create_task(self._write(writer, batch))

    async def _stored(self) -> None:
        """Wait for the background batch; its error is raised once."""
        storing, self._storing = self._storing, None
        if storing is not None:
            await storing

    async def _write(self, writer: WriterAside, batch: CopyBatch) -> None:
        if self._by_shadow or batch.judged or (self._foreign and self._has_texts(batch)):
            for start in range(0, batch.fields.num_rows, _SHADOW_ROWS):
                part = batch.chosen(slice(start, start + _SHADOW_ROWS))
                made, kept = await self._through_shadow(part)
                count = sum(rows.num_rows for rows in made)
                if count == np.count_nonzero(kept):
                    self._lines.add(part.lines.filter(pa.array(kept)))
                else:
                    self._lines.add_unknown(count)
                for rows in made:
                    await writer.write(rows)
            return
        rows, refused = await asyncio.to_thread(self._convert, batch)
        lines = batch.lines
        if refused is not None:
            odd, kept = await self._through_shadow(batch.chosen(refused))
            if not kept.all():
                left = np.ones(len(refused), np.bool_)
                left[np.flatnonzero(refused)[~kept]] = False
                rows, lines, refused = rows.filter(pa.array(left)), lines.filter(pa.array(left)), refused[left]
            rows = await asyncio.to_thread(_merge, rows, odd, pa.array(refused))
        self._lines.add(lines)
        await writer.write(rows)

    def _convert(self, batch: CopyBatch) -> tuple[pa.RecordBatch, Mask | None]:
        """The rows in lake form, and which of them PostgreSQL must judge (None: no row)."""
        found: dict[int, pa.Array] = {}
        refused = np.zeros(batch.fields.num_rows, np.bool_)
        for mask in batch.defaults:
            if mask is not None:
                refused |= mask
        for column, values in zip(self._columns, batch.fields.columns, strict=True):
            if self._options.format is CopyFormat.BINARY:
                converted = convert_binary(values, column.type_oid, column.typmod)
            else:
                converted = convert_text(values, column.type_oid, column.typmod, self._zone)
            found[column.attnum] = converted.array
            if converted.refused is not None:
                refused |= converted.refused.to_numpy(zero_copy_only=False)
            if column.labels:
                refused |= _unknown_labels(column, converted.array)
            if not column.nullable and converted.array.null_count:
                refused |= pc.is_null(converted.array).to_numpy(zero_copy_only=False)
        schema = arrow_schema(self._table)
        arrays = [
            found[column.attnum] if column.attnum in found else pa.nulls(batch.fields.num_rows, field.type)
            for column, field in zip(self._table.columns, schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in schema])
        return rows, refused if refused.any() else None

    async def _through_shadow(self, batch: CopyBatch) -> tuple[list[pa.RecordBatch], Mask]:
        """Copy rows into the shadow, where PostgreSQL accepts or refuses them, and read them back in lake form; also
        return which rows it has not skipped for their values.
        """
        session, backend = self._session, self._session.backend
        names = ", ".join(map(quoted, self._names))
        condition = "" if self._condition is None else f" WHERE ({self._condition}\n)"
        options = self._options.of_rows(self._names)
        copy = f"COPY {qualified(self._table)} ({names}) FROM STDIN ({options}){condition}"
        messages = await asyncio.to_thread(self._messages, batch)
        notices: list[NoticeResponse] = []
        async with self._backend, session.transaction.deferred.opened():
            await begin_shadow(session, self._table)
            if self._options.ignores_errors:
                await backend.run(SAY_ALL)
            try:
                async with guarding_functions(session, self._functions, self._table):
                    await copy_in(backend, copy, messages, notices, in_utf8=not self._foreign)
            except SluiceError as error:
                self._skipped.take(notices, batch)
                self._restore_line(error, batch)
                raise
            kept = self._skipped.take(notices, batch)
            return await take_shadow_rows(session, self._table), kept

    def _restore_line(self, error: SluiceError, batch: CopyBatch) -> None:
        """Translate PostgreSQL's line number, which counts the lines it was given, to the client's."""
        context = error.fields.get("W", "")
        found = re.search(rf"^COPY {re.escape(self._table.name)}, line (\d+)", context, re.MULTILINE)
        if found is None:
            return
        [row] = batch.source.rows_at([int(found[1])]).tolist()
        if 0 <= row < len(batch.lines):
            line = batch.lines[row].as_py()
            error.fields["W"] = f"{context[: found.start(1)]}{line}{context[found.end(1) :]}"

    def _has_texts(self, batch: CopyBatch) -> bool:
        """Whether it may contain texts that are not ASCII."""
        return any(
            column.type_oid not in _WITHOUT_TEXTS and bool((payload_of(as_binary(values)) & 0x80).any())
            for column, values in zip(self._columns, batch.fields.columns, strict=True)
        )

    def _messages(self, batch: CopyBatch) -> bytes:
        data = batch.source.data()
        if self._options.format is CopyFormat.BINARY:
            data = b"".join((COPY_HEADER, data, COPY_TRAILER))
        return copy_data(data)


def _unknown_labels(column: Column, array: pa.StringArray) -> Mask:
    """Which values are not known as usable labels of the column's enumeration."""
    usable = pa.array([label.text for label in column.labels if label.usable], pa.string())
    unknown = pc.and_(pc.invert(pc.is_in(array, usable)), pc.is_valid(array))
    mask: Mask = unknown.to_numpy(zero_copy_only=False)
    return mask


def _batches(reader: Reader, piece: bytes | SluiceError | None) -> tuple[list[CopyBatch], SluiceError | None]:
    """The batches that the reader makes of a piece of data, of the end, or of an obstacle; then the error of the line
    after these rows.
    """
    batches: list[CopyBatch] = []
    try:
        if piece == LOOK:
            batches.extend(reader.rest())
        elif isinstance(piece, bytes):
            batches.extend(reader.feed(piece))
        elif piece is None or isinstance(reader, BinaryReader):
            batches.extend(reader.finish())
        else:
            batches.extend(reader.fail(piece))
    except SluiceError as error:
        return batches, error
    return batches, None


def _merge(rows: pa.RecordBatch, odd: Sequence[pa.RecordBatch], refused: pa.BooleanArray) -> pa.Table:
    """Insert the rows from the shadow at their places among the converted rows."""
    if not odd:
        return pa.Table.from_batches([rows]).filter(pc.invert(refused))
    good = pa.Table.from_batches([rows])
    replaced = pa.Table.from_batches(odd).rename_columns(good.column_names).cast(good.schema)
    both = pa.concat_tables([good, replaced])
    # Row i stays, or, if it is the k-th refused one, is replaced by the k-th appended one.
    order = pc.if_else(
        refused,
        pc.add(pc.cumulative_sum(refused.cast(pa.int64())), good.num_rows - 1),
        pa.array(range(good.num_rows), pa.int64()),
    )
    return both.take(order)
