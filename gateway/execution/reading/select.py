"""SELECT on the lake: has its rows computed or read, and encodes batch by batch; memory holds a few batches only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.backend.statement_timeout import timed_out
from gateway.execution.reading.carried_types import CarriedColumns
from gateway.execution.reading.handed_rows import Placed, not_computed, placed
from gateway.execution.reading.handed_tables import with_temporary_tables
from gateway.execution.reading.plan_context import Reading, planned, read, runnable
from gateway.execution.reading.postgres_query import Computing
from gateway.execution.reading.stored_rows import stored_rows
from gateway.session.cancel_listener import attending
from gateway.session.response_spool import ResponseSpool
from gateway.statement.portal import Binding, Portal, with_formats
from gateway.values import OutputSettings, ResultColumn, encode_rows
from gateway.wire.messages.backend import CommandComplete, FieldDescription, PortalSuspended

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed
    from planner.tree.nodes import Node

# Rows that are encoded at a time, off the event loop; fewer are encoded on it, because a thread costs more.
_ROWS_AT_ONCE: Final = 65_536
_ROWS_ON_LOOP: Final = 512
_COLUMNS_ON_LOOP: Final = 100
_BYTES_ON_LOOP: Final = 1 << 18


async def stream_of(
    session: SessionContext,
    routed: Routed,
    reading: Reading,
    limit_time: Callable[[float | None], None],
    carried: CarriedColumns,
) -> RowStream:
    """Start a planned SELECT."""
    limit_time(reading.timeout)
    reading = await with_temporary_tables(session, routed.query, reading)
    query = await planned(session, reading, carried.plan, routed.query)
    return await session.gateway.engine.stream(runnable(query, reading), session.tag)


class Presenting(Protocol):
    """Provides the settings for encoding: a `Reading`, or the settings of a later moment."""

    @property
    def output(self) -> OutputSettings:
        """The settings."""


class RowSender:
    """Encodes batches for one client, and sends them as fast as it reads."""

    def __init__(
        self,
        session: SessionContext,
        columns: tuple[FieldDescription, ...],
        reading: Presenting,
        carried: CarriedColumns | None = None,
    ) -> None:
        self._session = session
        self._client = session.client
        self._carried = carried or CarriedColumns()
        self._given = [ResultColumn(column.type_oid, column.typmod, column.format) for column in columns]
        self._columns = self._carried.sent(self._given)
        self._settings = reading.output

    async def made(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch, after the session's backend has made the values of carried types."""
        return await self._carried.made(self._session, batch, self._given)

    async def send(self, batch: pa.RecordBatch) -> None:
        """Send all rows of the batch; columns of carried types must be `made`."""
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            if _is_small(part):
                data = encode_rows(part, self._columns, self._settings)
            else:
                data = await asyncio.to_thread(encode_rows, part, self._columns, self._settings)
            self._client.write(data)
            await self._client.drain()


def _is_small(rows: pa.RecordBatch) -> bool:
    """Whether they are encoded fast: each column takes some time of its own."""
    few = rows.num_rows <= _ROWS_ON_LOOP and rows.num_columns <= _COLUMNS_ON_LOOP
    return few and int(rows.nbytes) <= _BYTES_ON_LOOP


class SelectPortal(Portal):
    """A query, which may be executed in portions."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        self.session = session
        self._analysis = analysis
        self._routed = routed
        self._binding = binding
        self._stream: RowStream | None = None
        self._batches: AsyncIterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._sender: RowSender | None = None
        self._timeout: float | None = None
        self._timer: asyncio.Timeout | None = None
        self._reading: Reading | None = None
        self._carried = CarriedColumns()
        self._computed: ResponseSpool | None = None
        self._left = 0  # rows that were computed and not yet sent
        self.columns = with_formats(analysis.columns or (), binding.result_formats)

    async def execute(self, limit: int) -> None:
        try:
            async with asyncio.timeout(self._timeout) as self._timer:
                await self._execute(limit)
        except TimeoutError:
            self.session.gateway.engine.cancel(self.session.tag)
            raise timed_out() from None

    def limit_time(self, seconds: float | None) -> None:
        """Limit the time of each execution, this one from now on."""
        self._timeout = seconds
        if seconds is not None and self._timer is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _execute(self, limit: int) -> None:
        if not self.started:
            self.started = True
            try:
                reading = await self._open()
                async with attending(self.session, leaves_window=not self._carried):
                    self._rest = await self._next(0)
            except SluiceError as error:
                if self._reading is None or error.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                    if self._batches is not None:
                        self.announce()  # the query had begun, so PostgreSQL would have described its rows
                    raise
                await self.close()
                await self._compute(limit, error)
                return
            self.announce()
            self._sender = RowSender(self.session, self.columns or (), reading, self._carried)
        if self._computed is not None:
            await self._give(limit)
            return
        assert self._sender is not None
        if self._carried:
            sent = await self._send_carried(self._sender, limit)
        else:
            async with attending(self.session):
                sent = await self._send(self._sender, limit)
        if limit and sent == limit:
            self.session.client.send(PortalSuspended())
            return
        self.session.client.send(CommandComplete(f"SELECT {sent}"))

    async def _send(self, sender: RowSender, limit: int) -> int:
        sent = 0
        while (batch := await self._next(limit - sent if limit else 0)) is not None:
            await sender.send(batch)
            sent += batch.num_rows
            if limit and sent == limit:
                break
        return sent

    async def _send_carried(self, sender: RowSender, limit: int) -> int:
        """Send rows; in between, the session's backend makes values, in its present window."""
        sent = 0
        while not limit or sent < limit:
            async with attending(self.session, leaves_window=False):
                batch = await self._next(limit - sent if limit else 0)
            if batch is None:
                break
            made = await sender.made(batch)
            async with attending(self.session, leaves_window=False):
                for part in made:
                    await sender.send(part)
            sent += batch.num_rows
        return sent

    async def _open(self) -> Reading:
        """Start the query; its rows come in `_batches`, or are `_computed`. `_reading` is set before an engine
        may refuse.
        """
        session, query = self.session, self._routed.query
        assert query is not None
        reading = self._reading = await read(session, self._analysis, self._binding, self._routed.lake)
        where = await placed(session, query, reading)
        if where.stored is not None:
            self._stream = await stored_rows(session, where.stored, reading, session.tag, self.limit_time)
        elif not where.is_with_postgres or not await self._computed_first(query, reading, where):
            self._stream = await stream_of(session, self._routed, reading, self.limit_time, self._carried)
        if self._stream is not None:
            self._batches = aiter(self._stream)
        return reading

    async def _computed_first(self, query: Node, reading: Reading, where: Placed) -> bool:
        """Have PostgreSQL compute the rows, which are placed there. False if it cannot.

        The rows are kept until all are computed, so that the shadows are free before the client has read any.
        """
        session = self.session
        kept = ResponseSpool(only_rows=True)
        computing = Computing(session, query, reading, not_computed(), placed=where)
        try:
            async with computing:
                tag = await computing.send(self._binding, kept)
        except SluiceError as error:
            kept.close()
            if computing.gives_up(error):
                return False
            self.announce()  # as PostgreSQL does before it computes rows
            raise
        self._computed, self._left = kept, int(tag.removeprefix("SELECT "))
        return True

    async def _compute(self, limit: int, refusal: SluiceError) -> None:
        """Have PostgreSQL compute what Spark refuses, if it can."""
        assert self._reading is not None
        kept = self._computed = ResponseSpool(only_rows=True) if limit else None
        async with Computing(
            self.session, self._routed.query, self._reading, refusal, made_by_users=True, lasting=not limit
        ) as computing:
            if self._binding.raw_query is None:
                self.announce()  # EXECUTE: the backend does not describe results of the protocol's own messages
            tag = await computing.send(self._binding, kept)
        if kept is None:
            self.session.client.send(CommandComplete(tag))
        else:
            self._left = int(tag.removeprefix("SELECT "))
            await self._give(limit)

    async def _give(self, limit: int) -> None:
        """Send the next computed rows."""
        assert self._computed is not None
        client, left = self.session.client, self._left
        if limit and left >= limit:
            self._left -= await self._computed.give_rows(client, limit)
            client.send(PortalSuspended())
        else:
            await self._computed.give(client)
            self._left = 0
            client.send(CommandComplete(f"SELECT {left}"))

    async def _next(self, limit: int) -> pa.RecordBatch | None:
        """The next rows, at most `limit` unless it is 0; None at the end."""
        batch, self._rest = self._rest, None
        while batch is None or batch.num_rows == 0:
            if self._batches is None:
                return None
            try:
                batch = await anext(self._batches)
            except StopAsyncIteration:
                await self.close()
                return None
        if limit and batch.num_rows > limit:
            self._rest = batch.slice(limit)
            batch = batch.slice(0, limit)
        return batch

    async def close(self) -> None:
        stream, self._stream, self._batches = self._stream, None, None
        if self._computed is not None:
            self._computed.close()
        if stream is not None:
            await stream.close()
