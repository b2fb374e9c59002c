"""COPY … FROM STDIN: bytes to whole Arrow columns to Parquet, in bounded memory.

Values in canonical form are converted column by column. Rows with anything else (an odd date spelling, a NULL where
none may be, a value out of range) go to PostgreSQL, into the shadow, which takes them or gives its own error. Tables
with CHECK constraints, and columns left to their defaults, go to the shadow as a whole.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import BYTEA, TEXT
from catalog.errors import SluiceError, SqlState
from catalog.model import Column, Table
from catalog.store import TableRules
from gateway.analysis import SAVEPOINT, UNDO
from gateway.attention import check
from gateway.backend import Statement
from gateway.copy import BinaryReader, CopyBatch, CopyFormat, CopyOptions, CopyWriter, LineNumbers, TextReader
from gateway.lake.changing import Changing
from gateway.lake.copied_columns import copied_columns
from gateway.lake.copy_out import copy_options
from gateway.lake.guarded import guarding_functions
from gateway.lake.reading import session_values
from gateway.lake.shadow import begin_shadow, qualified, take_shadow_rows
from gateway.lake.uniqueness import DuplicateKeyError
from gateway.messages import frontend
from gateway.messages.backend import CommandComplete
from gateway.messages.copy import CopyDone, CopyFail, CopyInResponse
from gateway.portal import StatementPortal
from gateway.states import Action
from gateway.values import OutputSettings, ResultColumn, convert_binary, convert_text
from gateway.visibility import functions_of_rules, rules, used
from planner.lexer import quoted
from storage.arrow_types import arrow_schema
from storage.write import WriteResult
from storage.writer_aside import WriterAside

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_LINE: Final = re.compile(r"\bline (\d+)")
Reader = TextReader | BinaryReader
# Rows that go to the shadow at a time: it holds them only until they are read back.
_SHADOW_ROWS: Final = 50_000


class CopyInPortal(StatementPortal):
    """COPY table [(columns)] FROM STDIN."""

    async def run(self) -> None:
        session, target = self.session, self.routed.lake[0]
        async with Changing(self, "COPY FROM", target) as changing:
            version = await used(session, target, self.analysis.mark, changing.mark, read=False)
            table = version.table
            kept = await rules(session, table)
            assert self.routed.query is not None
            columns = copied_columns(table, self.routed.query.utilityStmt.attlist, kept.generated)
            await self._check_privilege(table, columns)
            options = CopyOptions.parse(
                copy_options(self.routed),
                [column.name for column in columns],
                is_from=True,
                relation=table.name,
                relation_columns=[column.name for column in table.columns],
            )
            values, _ = await session_values(session)
            form = int(options.format is CopyFormat.BINARY)
            functions = functions_of_rules(kept, defaults=True)
            load = _Load(session, table, kept, columns, options, time_zone=values.time_zone, functions=functions)
            async with session.timeouts.out_of_window():
                session.send_noted(CopyInResponse(bytes([form]), (form,) * len(columns)))
                await session.client.drain()
                if table.materialized:
                    text = f'cannot copy to materialized view "{table.name}"'
                    raise SluiceError(SqlState.WRONG_OBJECT_TYPE, text)
                result = await load.run(self._data())
            try:
                await changing.wrote(result, version)
            except DuplicateKeyError as error:
                await load.tell_line(error, result)
                raise
            await changing.finish()
        session.client.send(CommandComplete(f"COPY {result.row_count}"))

    async def _check_privilege(self, table: Table, columns: Sequence[Column]) -> None:
        """PostgreSQL says whether the role may insert into these columns: an INSERT of defaults, only explained."""
        if not columns or table.materialized:  # into which nobody may insert
            return
        names = ", ".join(quoted(column.name) for column in columns)
        defaults = ", ".join(["DEFAULT"] * len(columns))
        explaining = Statement(f"EXPLAIN INSERT INTO {qualified(table)} ({names}) VALUES ({defaults})")
        await self.session.backend.run(SAVEPOINT, explaining, *UNDO)

    async def _data(self) -> AsyncIterator[bytes]:
        """The payloads as the client sends them, until it is done."""
        client, machine = self.session.client, self.session.machine
        while True:
            data = await client.copy_data()
            check(self.session)
            if data:
                yield data
                continue
            frame = await client.frame()
            if machine.received(frontend.FRONTEND[frame.type]) is Action.IGNORE:
                continue
            if frame.type == CopyDone.type:
                return
            reason = CopyFail.decode(frame.body).message if frame.type == CopyFail.type else "the client went"
            raise SluiceError(SqlState.QUERY_CANCELED, f"COPY from stdin failed: {reason}")


class _Load:
    """One COPY's data on its way into Parquet."""

    def __init__(
        self,
        session: Exchange,
        table: Table,
        kept: TableRules,
        columns: Sequence[Column],
        options: CopyOptions,
        *,
        time_zone: str,
        functions: Collection[int],
    ) -> None:
        """`functions` are those of users that PostgreSQL runs for rows."""
        self._session = session
        self._table = table
        self._columns = columns
        self._options = options
        self._zone = time_zone
        given = {column.attnum for column in columns}
        left = [column for column in table.columns if column.attnum not in given]
        self._by_shadow = bool(kept.checks) or any(
            column.attnum in kept.defaults or column.attnum in kept.identity or not column.nullable for column in left
        )
        self._by_shadow = self._by_shadow or bool(kept.generated)
        self._by_shadow = self._by_shadow or any(column.domain and column.domain.has_rules for column in table.columns)
        self._without_default = [
            place
            for place, column in enumerate(columns)
            if column.attnum not in kept.defaults and column.attnum not in kept.identity
        ]
        # What stands for the DEFAULT marker on the way to the shadow: nobody's value.
        self._marker = secrets.token_hex(16)
        self._functions = functions
        self._storing: asyncio.Task[None] | None = None
        self._lines = LineNumbers()
        # PostgreSQL puts each row in by itself where a default may be another for each: then it quotes the line too.
        self._one_by_one = any(column.attnum in kept.defaults or column.attnum in kept.identity for column in left)

    async def tell_line(self, error: DuplicateKeyError, result: WriteResult) -> None:
        """Say which line of the data has a key that is there already, where PostgreSQL says no more."""
        if self._one_by_one:
            return
        row = await error.place(self._session, self._table, result.data_files)
        error.fields["W"] = f"COPY {self._table.name}, line {self._lines.of(row)}"

    async def run(self, data: AsyncIterator[bytes]) -> WriteResult:
        """Take all of the data; the files are whole when this returns, and gone when it raises."""
        names = [column.name for column in self._columns]
        binary = self._options.format is CopyFormat.BINARY
        reader: Reader = (
            BinaryReader(names, self._table.name)
            if binary
            else TextReader(self._options, names, self._table.name, without_default=self._without_default)
        )
        async with WriterAside(self._session.gateway.data_path, self._table) as writer:
            try:
                async for payload in data:
                    for batch in await asyncio.to_thread(_batches, reader, payload):
                        await self._hand_over(writer, batch)
                for batch in await asyncio.to_thread(_batches, reader, None):
                    await self._hand_over(writer, batch)
            finally:
                await self._stored()  # what is wrong with earlier rows comes first
            return await writer.finish()

    async def _hand_over(self, writer: WriterAside, batch: CopyBatch) -> None:
        """Let a batch be converted and written while the next one is read; one at a time."""
        await self._stored()
        self._lines.add(batch.lines)
        self._storing = asyncio.create_task(self._write(writer, batch))

    async def _stored(self) -> None:
        """Wait for the batch that was handed over; its error is raised once."""
        storing, self._storing = self._storing, None
        if storing is not None:
            await storing

    async def _write(self, writer: WriterAside, batch: CopyBatch) -> None:
        fields, defaulted = self._marked(batch)
        if self._by_shadow:
            for start in range(0, fields.num_rows, _SHADOW_ROWS):
                lines = batch.lines.slice(start, _SHADOW_ROWS)
                for rows in await self._through_shadow(fields.slice(start, _SHADOW_ROWS), lines):
                    await writer.write(rows)
            return
        rows, refused = await asyncio.to_thread(self._convert, fields, defaulted)
        if refused is not None:
            odd = await self._through_shadow(fields.filter(refused), batch.lines.filter(refused))
            rows = await asyncio.to_thread(_merge, rows, odd, refused)
        await writer.write(rows)

    def _marked(self, batch: CopyBatch) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
        """The fields with the marker where the default is asked for, and which rows ask (None: no row)."""
        fields, rows = batch.fields, None
        for place, mask in enumerate(batch.defaults):
            if mask is not None and mask.any():
                asked = pa.array(mask)
                marked = pc.if_else(
                    asked, pa.scalar(self._marker.encode(), fields.schema.field(place).type), fields[place]
                )
                fields = fields.set_column(place, fields.schema.field(place).name, marked)
                rows = asked if rows is None else pc.or_(rows, asked)
        return fields, rows

    def _convert(
        self, batch: pa.RecordBatch, refused: pa.BooleanArray | None
    ) -> tuple[pa.RecordBatch, pa.BooleanArray | None]:
        """The rows in lake form, and which of them PostgreSQL must judge besides `refused` (None: no row)."""
        found: dict[int, pa.Array] = {}
        for column, values in zip(self._columns, batch.columns, strict=True):
            if self._options.format is CopyFormat.BINARY:
                converted = convert_binary(values, column.type_oid, column.typmod)
            else:
                converted = convert_text(values, column.type_oid, column.typmod, self._zone)
            found[column.attnum] = converted.array
            masks = [] if converted.refused is None else [converted.refused]
            if column.labels:
                masks.append(_unknown_labels(column, converted.array))
            if not column.nullable and converted.array.null_count:
                masks.append(pc.is_null(converted.array))
            for mask in masks:
                refused = mask if refused is None else pc.or_(refused, mask)
        arrays = [
            found[column.attnum] if column.attnum in found else pa.nulls(batch.num_rows)
            for column in self._table.columns
        ]
        if refused is not None and not pc.any(refused).as_py():
            refused = None
        schema = arrow_schema(self._table)
        arrays = [
            array.cast(field.type) if pa.types.is_null(array.type) else array
            for array, field in zip(arrays, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in schema]), refused

    async def _through_shadow(self, fields: pa.RecordBatch, lines: pa.Int64Array) -> list[pa.RecordBatch]:
        """Rows that PostgreSQL takes or refuses: copied into the shadow and read back in lake form."""
        backend = self._session.backend
        names = ", ".join(quoted(column.name) for column in self._columns)
        target = qualified(self._table)
        binary = self._options.format is CopyFormat.BINARY
        types = [ResultColumn(BYTEA if binary else TEXT, -1, int(binary)) for _ in self._columns]
        options = CopyOptions(format=CopyFormat.BINARY if binary else CopyFormat.TEXT)
        writer = CopyWriter(options, types, [column.name for column in self._columns], OutputSettings())
        messages = await asyncio.to_thread(lambda: writer.rows(fields) + writer.finish())
        default = "" if self._options.default is None else f", DEFAULT '{self._marker}'"
        copy = f"COPY {target} ({names}) FROM STDIN (FORMAT {options.format}{default})"
        async with self._session.transaction.deferred.opened():
            await begin_shadow(self._session, self._table)
            try:
                async with guarding_functions(self._session, self._functions, self._table.oid):
                    await backend.copy_in(copy, messages)
            except SluiceError as error:
                _restore_line(error, lines)
                raise
            return await take_shadow_rows(self._session, self._table)


def _unknown_labels(column: Column, array: pa.StringArray) -> pa.BooleanArray:
    """Which values are not known to be usable ones of the column's enumeration."""
    usable = pa.array([label.text for label in column.labels if label.usable], pa.string())
    return pc.and_(pc.invert(pc.is_in(array, usable)), pc.is_valid(array))


def _restore_line(error: SluiceError, lines: pa.Int64Array) -> None:
    """PostgreSQL counted the rows that it was given: say which line of the client's data it was."""
    context = error.fields.get("W", "")
    found = _LINE.search(context)
    if found is not None and 0 < int(found.group(1)) <= len(lines):
        line = lines[int(found.group(1)) - 1].as_py()
        error.fields["W"] = f"{context[: found.start()]}line {line}{context[found.end() :]}"


def _batches(reader: Reader, payload: bytes | None) -> list[CopyBatch]:
    """What the reader makes of a piece of data, or of its end."""
    return list(reader.finish() if payload is None else reader.feed(payload))


def _merge(rows: pa.RecordBatch, odd: Sequence[pa.RecordBatch], refused: pa.BooleanArray) -> pa.Table:
    """The converted rows with those that came back from the shadow in their places."""
    if not odd:
        return pa.Table.from_batches([rows]).filter(pc.invert(refused))
    good = pa.Table.from_batches([rows])
    replaced = pa.Table.from_batches(odd).rename_columns(good.column_names).cast(good.schema)
    both = pa.concat_tables([good, replaced])
    # Row i stays where it is, or is the k-th of the appended, when it is the k-th that was refused.
    order = pc.if_else(
        refused,
        pc.add(pc.cumulative_sum(refused.cast(pa.int64())), good.num_rows - 1),
        pa.array(range(good.num_rows), pa.int64()),
    )
    return both.take(order)
