"""COPY … TO STDOUT: runs a query and encodes its rows for COPY."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.model import Table
from gateway.backend.analysis import Analysis
from gateway.copy_format import CopyFormat, CopyOptions, CopyWriter, line_messages
from gateway.execution.copy.copy_columns import copied_columns
from gateway.execution.copy.copy_encoding import encoded
from gateway.execution.reading.carried_types import CarriedColumns
from gateway.execution.reading.copy_trial import (
    backend_copies,
    binary_columns,
    data_encoding,
    options_of,
    try_options,
    try_statement,
)
from gateway.execution.reading.handed_rows import placed
from gateway.execution.reading.plan_context import Reading, read
from gateway.execution.reading.postgres_query import Computing
from gateway.execution.reading.query_rows import file_rows, spark_rows
from gateway.execution.shadow.shadow import qualified
from gateway.session.cancel_listener import attended
from gateway.session.lake_cursor import RowStream
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import latest, rules
from gateway.statement.portal import Binding, StatementPortal
from gateway.statement.routed import Routed
from gateway.statement.routing import route
from gateway.values import ResultColumn
from gateway.wire.messages.backend import CommandComplete
from gateway.wire.messages.copy import CopyDone, CopyOutResponse
from planner.syntax.lexer import quoted
from planner.tree.nodes import Node


class CopyOutPortal(StatementPortal):
    """COPY table [(columns)] TO STDOUT, or COPY (query) TO STDOUT."""

    async def run(self) -> None:
        inner, routed = await self._query()
        names = [field.name for field in inner.columns or ()]
        options = options_of(self.routed, names)
        self.session.client.describe(binary_columns(inner.columns or ()), copies=backend_copies(self.session, options))
        encoding = await data_encoding(self.session, options)
        reading = await read(self.session, inner, Binding(), routed.lake)
        carried = CarriedColumns()
        try:
            stream = await self._rows(routed, reading, carried)
        except SluiceError as refusal:
            if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                raise
            await self._compute(routed, reading, refusal)
            return
        try:
            if options.format is not CopyFormat.BINARY:  # so that it is in the client's encoding
                self.session.client.describe(None)
            rows = await self._send(stream, inner, options, reading, encoding, carried)
        finally:
            await stream.close()
        self.session.send_noted(CopyDone())
        self.session.client.send(CommandComplete(f"COPY {rows}"))

    async def _rows(self, routed: Routed, reading: Reading, carried: CarriedColumns) -> RowStream:
        """The rows from the table's files or from Spark."""
        assert routed.query is not None
        session = self.session
        stored = (await placed(session, routed.query, reading)).stored
        if stored is not None:
            return await file_rows(session, stored, reading, session.tag, self.limit_time, leaves_window=True)
        return await spark_rows(
            session, routed, reading, session.tag, self.limit_time, carried.plan, leaves_window=True
        )

    async def _query(self) -> tuple[Analysis, Routed]:
        """The query to copy; PostgreSQL has accepted the rest of the statement."""
        session, inner, routed = self.session, self.routed.inner, self.routed.inner_routed
        if inner is None or routed is None:
            query = await self._table_query()
            inner = await analysed(session, query, sync=True)
            routed = await route(session, inner)
        else:
            await try_options(session, self.analysis.sql, [field.name for field in inner.columns or ()])
        return inner, routed

    async def _send(  # noqa: PLR0917
        self,
        stream: RowStream,
        inner: Analysis,
        options: CopyOptions,
        reading: Reading,
        encoding: str | None,
        carried: CarriedColumns,
    ) -> int:
        """Send all rows to the client; return their number."""
        session, fields = self.session, inner.columns or ()
        rows, form = 0, int(options.format is CopyFormat.BINARY)
        columns = [ResultColumn(field.type_oid, field.typmod, form) for field in fields]
        writer = CopyWriter(options, carried.sent(columns), [field.name for field in fields], reading.output)
        async with session.timeouts.out_of_window():
            session.send_noted(CopyOutResponse(bytes([form]), (form,) * len(fields)))
            async for batch in attended(session, stream):
                rows += batch.num_rows
                for made in await carried.made(session, batch, columns):
                    if encoding is None or form:
                        session.client.write(await asyncio.to_thread(writer.rows, made))
                        await session.client.drain()
                    else:
                        await self._send_encoded(await asyncio.to_thread(writer.lines, made), encoding)
            if encoding is None or form:
                session.client.write(writer.finish())
            else:
                await self._send_encoded(writer.lines(None), encoding)
        return rows

    async def _send_encoded(self, lines: pa.BinaryArray, encoding: str) -> None:
        """Send the lines in the client's encoding, up to the first that cannot be converted."""
        async for part, refusal in encoded(self.session, lines, encoding):
            self.session.client.write(await asyncio.to_thread(line_messages, part))
            await self.session.client.drain()
            if refusal is not None:
                raise refusal

    async def _compute(self, routed: Routed, reading: Reading, refusal: SluiceError) -> None:
        """Have PostgreSQL copy what Spark cannot compute."""
        async with Computing(
            self.session, routed.query, reading, refusal, made_by_users=True, lasting=True
        ) as computing:
            tag = await computing.send(self.binding)
        self.session.client.send(CommandComplete(tag))

    async def _table_query(self) -> str:
        """The query for a table's columns."""
        assert self.routed.query is not None
        statement: Node = self.routed.query.utilityStmt
        version = await latest(self.session, self.routed.lake[0])
        table: Table = version.table
        if not table.populated:
            raise SluiceError(
                SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,
                f'cannot copy from unpopulated materialized view "{table.name}"',
                hint="Use the REFRESH MATERIALIZED VIEW command.",
            )
        if not table.materialized:
            await try_statement(self.session, self.analysis.sql)
        kept = await rules(self.session, table)
        columns = copied_columns(table, statement.attlist, kept.generated)
        if table.materialized:  # its shadow is not populated
            await try_options(self.session, self.analysis.sql, [column.name for column in columns])
        return f"SELECT {', '.join(quoted(column.name) for column in columns)} FROM ONLY {qualified(table)}"
