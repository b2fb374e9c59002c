"""A client's session after authentication: reads messages and sends answers in the order of the protocol.

Statements that PostgreSQL answers are relayed byte for byte from the session's backend. Statements on the lake become
a `Portal` (gateway.statement.portal), which gives rows when it is executed. The states are those of
`gateway.wire.states`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from catalog.errors import SluiceError, SqlState
from catalog.gateways import lost_catalog
from gateway.backend.activity import beginning
from gateway.backend.connection import Backend, BackendLostError
from gateway.backend.own_message import refuse_own, refuse_own_names
from gateway.client.connection import Client, ClientGoneError
from gateway.execution.functions.function_call import call_function
from gateway.execution.functions.late_triggers import fire_late
from gateway.node.gateway_context import GatewayContext
from gateway.protocol import simple_query
from gateway.protocol.extended_query import ExtendedQuery
from gateway.protocol.following_inserts import Following
from gateway.session.repeated_execution import REPETITIONS_MAX
from gateway.session.schema_propagation import shut_down, spread
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.transaction.inserted import Inserted
from gateway.wire.framing import HEADER_BYTES, Frame, UnknownTypeError
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ErrorResponse, NoData, ParseComplete, ReadyForQuery
from gateway.wire.states import Action, State

_LOG: Final = logging.getLogger("sluice.session")

# Messages that need a lease, because they begin statements.
_TEXTS: Final = frozenset({frontend.Query, frontend.Parse})
# Messages with names of statements and portals: the bytes before these, and how many there are.
_NAMED: Final = {
    frontend.Parse: (0, 1),
    frontend.Bind: (0, 2),
    frontend.Describe: (1, 1),
    frontend.Execute: (0, 1),
    frontend.Close: (1, 1),
}
# Messages that end a pipeline without Sync; its answers are sent first.
_SIMPLE: Final = frozenset({frontend.Query, frontend.FunctionCall})
# Messages that may go on with a series of INSERTs; Sync neither does nor ends it.
_GOING_ON: Final = frozenset({frontend.Query, frontend.Parse, frontend.Bind, frontend.Sync})
_UNNAMED: Final = b"\0"
_BEGINNING: Final = frozenset({frontend.Query, frontend.Parse, frontend.Bind, frontend.Execute, frontend.FunctionCall})


class Session(ExtendedQuery):
    """The session's loop; `run` returns when the client has disconnected or the session was ended."""

    def __init__(self, gateway: GatewayContext, client: Client, backend: Backend, user: str) -> None:
        super().__init__(gateway, client, backend, user)
        # Portals of the lake that a failed block has, and whether they return rows.
        self._failed_portals: dict[str, bool] = {}
        self._following: Following | None = None
        # The Parse of the statement without a name.
        self._unnamed = b""

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Serve until the client disconnects. Raises BackendLostError when the catalog is lost."""
        self.transaction.late.fire = partial(fire_late, self)
        try:
            while self.machine.state is not State.CLOSED:
                if self.gateway.stopping and self.is_idle:
                    raise shut_down()
                frame = await self._next_frame()
                kind = frontend.FRONTEND[frame.type]
                if kind in _SIMPLE:
                    await self._settled()
                if self.machine.received(kind) is Action.PROCESS and await self._may_serve(kind):
                    await self._process(kind, frame)
                if not self.client.has_more:
                    await self.client.drain()
        finally:
            await self._close_portals()
            await self.cursors.close()
            await self.transaction.abandon()
            await self.reading.close()

    async def _next_frame(self) -> Frame:
        """The client's next frame; meanwhile messages of the backend (LISTEN, shutdown, errors) are passed on."""
        try:
            await self.client.give_way()
            frame = self.client.at_hand()
            return await self._waited_for() if frame is None else frame
        except UnknownTypeError:
            await self._settled()  # answers of the pipeline come first
            raise

    async def _waited_for(self) -> Frame:
        message = asyncio.create_task(self.client.frame())
        try:
            while True:
                news = self.backend.reading()
                if not self.backend.has_more:  # a notification may have come right behind ReadyForQuery
                    await asyncio.wait((message, news), return_when=asyncio.FIRST_COMPLETED)
                while news.done() or self.backend.has_more:
                    item = await self.backend.next()
                    if self._pipeline:
                        await self.take(item)
                    else:
                        self.forward_item(item)
                    if not self.backend.has_more:
                        break
                await self.client.drain()
                if message.done():
                    return message.result()
        finally:
            message.cancel()

    @property
    def is_idle(self) -> bool:
        """Whether no statement runs; a transaction may be open."""
        return self.machine.state is State.IDLE

    async def _may_serve(self, kind: type) -> bool:
        """Whether the gateway has a lease for this message. If not, it refuses the message, or ends the session if it
        cannot.
        """
        if kind not in _BEGINNING:
            return True
        try:
            await self.gateway.gateways.serve()
        except SluiceError as error:
            if kind is not frontend.Query or self.in_transaction or self._pipeline:
                self.backend.abort(error)
                raise
            self.machine.sent(ErrorResponse)
            self.client.send_error(error)
            self._ready()
            return False
        return True

    def catalog_lost(self) -> None:
        """End the session if it waits for the catalog, which does not answer; an idle session goes on until it needs
        the catalog.
        """
        if not self.is_idle:
            self.backend.abort(lost_catalog())

    async def _process(self, kind: type, frame: Frame) -> None:
        handler = {
            frontend.Query: self._query,
            frontend.Parse: self._parse,
            frontend.Bind: self._bind,
            frontend.Describe: self._describe,
            frontend.Execute: self._execute,
            frontend.Close: self._close,
            frontend.Flush: self._flush,
            frontend.Sync: self._sync,
            frontend.FunctionCall: self._function_call,
        }.get(kind)
        if handler is None:
            return
        self.reading.begin()
        self._show(kind, frame)
        await self.begin_answering()
        self._pipeline.begin()
        try:
            if kind in _TEXTS:
                await refuse_own(frame.data)
            if kind in _NAMED:
                refuse_own_names(frame, *_NAMED[kind])
            if self._following is not None and kind not in _GOING_ON:
                await self._end_following()
            await handler(frame)
            await self.client.settle()
        except BackendLostError:
            raise
        except SluiceError as error:
            if error.severity == "FATAL":
                raise
            await self._fail(error)
        except ClientGoneError:
            raise
        except Exception as fault:
            _LOG.exception("unexpected error")
            # The backend's outstanding answers are unknown; the next statement must not receive them.
            said = SluiceError(SqlState.INTERNAL_ERROR, f"{type(fault).__name__}: {fault}", severity="FATAL")
            self.backend.abort(said)
            raise BackendLostError(said) from fault
        if kind is frontend.Query or kind is frontend.FunctionCall:
            await self._leave_window()
            good = True
            if not (self.pipelining and self.transaction.open):  # PostgreSQL's implicit block lasts until Sync
                self.pipelining = False
                good = await self._end_own_block()
            self.client.committed(good=good)
            self.ends_with_statement = self.unsynced = self._holds_portal = self._took_snapshot = False
            await self._end_portals()
            await self.cursors.look()
            await spread(self)
            self._ready()
        self.answering = False

    def _show(self, kind: type, frame: Frame) -> None:
        """Have pg_stat_activity show the statement of a message. PostgreSQL itself knows those that it executes."""
        activity = self.backend.activity
        if kind in _TEXTS:
            activity.show(beginning(frame, after=0 if kind is frontend.Query else 1))
        elif kind is frontend.Bind:
            known = self._statements.known(beginning(frame, after=1).decode("utf-8", "replace"))
            activity.show(known.text or ("" if known.lake is None else known.lake.analysis.sql), beginning(frame))
        elif kind is frontend.Execute and (portal := beginning(frame)) != activity.portal:
            bound = self._portals.get(portal.decode("utf-8", "replace"))
            activity.show("" if bound is None else bound.prepared.analysis.sql, portal)
        elif kind is frontend.FunctionCall:
            activity.show("")

    async def _end_own_block(self) -> bool:
        """Commit or roll back a block that the gateway began. An error of COMMIT is sent: False."""
        if not self.transaction.implicit:
            return True
        if not self.transaction.open:
            await self.transaction.roll_back()
            return True
        try:
            await self.transaction.commit()
        except BackendLostError:
            raise
        except SluiceError as error:
            self.machine.sent(ErrorResponse)
            await self.client.say_error(error)
            return False
        return True

    def _ready(self) -> None:
        if self.backend.status == b"I":
            self.reading.end()
        for news in self.told.news():
            self.client.relay(news.encode())
        self.machine.sent(ReadyForQuery)
        self.client.send(ReadyForQuery(self.backend.status))

    # ── series of INSERTs ───────────────────────────────────────────────────────────────────────────────

    def _take_inserted(self) -> Inserted | None:
        inserted, self.inserted = self.inserted, None
        return inserted

    async def _end_following(self) -> None:
        following, self._following = self._following, None
        if following is not None:
            await following.series.end()

    async def _fail(self, error: SluiceError) -> None:
        self._following = self.inserted = None  # what waits is part of the block that fails
        await super()._fail(error)

    # ── simple query ────────────────────────────────────────────────────────────────────────────────────

    async def _query(self, frame: Frame) -> None:
        self._statements.forget("")
        await self._forget_portal("")
        if self._following is not None:
            text = (await self.encoding.read(frontend.Query, frame)).query
            self.meanings.disturb()
            if not (self.pipelining or frame.is_large) and await self._following.query(text):
                return
            await self._end_following()
        await self._join()
        if self._took_snapshot and self.backend.status == b"I":
            await self.fix_snapshot()
        self._take_inserted()
        await simple_query.answer(self, frame)
        inserted = self._take_inserted()
        if inserted is not None and not frame.is_large:
            following = Following.of(self, inserted, text=(await self.encoding.read(frontend.Query, frame)).query)
            self._following = following if following.shape is not None else None

    async def _function_call(self, frame: Frame) -> None:
        await self._join()
        await take_place(self, Place.SETTLED)
        await call_function(self, frame)

    async def _settled(self) -> None:
        """Wait for the answers of the extended protocol before a message that is not part of it."""
        try:
            await self._settle()
        except BackendLostError:
            raise
        except SluiceError as error:
            await self._fail(error)

    async def _join(self) -> None:
        """Join a pipeline without Sync and the simple query behind it in one transaction."""
        if self.pipelining and self.backend.status == b"I":
            await self._leave_level()
            await self.transaction.begin()

    # ── extended query ──────────────────────────────────────────────────────────────────────────────────

    async def _end_portals(self) -> None:
        """Close the portals of a transaction that has ended or failed. In a failed block they are still there."""
        if self.backend.status == b"T":
            self._failed_portals.clear()
            return
        failed = {name: bound.portal.columns is not None for name, bound in self._portals.items()}
        await self._close_portals()
        self._failed_portals = self._failed_portals | failed if self.backend.status == b"E" else {}

    async def _forget_portal(self, name: str) -> None:
        self._failed_portals.pop(name, None)
        await super()._forget_portal(name)

    async def _describe(self, frame: Frame) -> None:
        name = beginning(frame, skipped=1).decode("utf-8", "replace")
        of_portal = frame.data[HEADER_BYTES : HEADER_BYTES + 1] == b"P"
        if not (of_portal and self._has_failed(name)):
            await super()._describe(frame)
        elif self._failed_portals[name]:
            raise _ignored()
        else:
            self.send_noted(NoData())

    async def _parse(self, frame: Frame) -> None:
        following = self._following
        if following is not None:
            if following.prepared is not None and not following.name and frame.data == self._unnamed:
                self.send_noted(ParseComplete())  # the backend has it
                return
            await self._end_following()
        await super()._parse(frame)
        if frame.data[HEADER_BYTES : HEADER_BYTES + 1] == _UNNAMED:
            self._unnamed = b"" if frame.is_large else bytes(frame.data)

    async def _bind(self, frame: Frame) -> None:
        following = self._following
        if following is not None:
            message = await self.encoding.read(frontend.Bind, frame)
            known = self._statements.known(message.statement)
            is_it = message.statement == following.name and known.lake is following.prepared
            is_sure = is_it and not (message.statement and self.is_named_since(known.naming))
            self.meanings.disturb()
            if is_sure and await following.bind(self, message):
                self.pipelining = True
                return
            await self._end_following()
        await super()._bind(frame)

    async def _execute(self, frame: Frame) -> None:
        name = beginning(frame).decode("utf-8", "replace")
        if self._has_failed(name):
            raise _ignored()
        self._take_inserted()
        await super()._execute(frame)
        inserted = self._take_inserted()
        if inserted is not None and (bound := self._portals.get(name)) is not None:
            self._following = Following.of(self, inserted, portal=bound)

    def _has_failed(self, name: str) -> bool:
        return self.backend.status == b"E" and name in self._failed_portals

    async def _sync(self, frame: Frame) -> None:
        if self.transaction.deferred.is_open:
            self.machine.state = State.EXTENDED_QUERY  # the outstanding answers were requested in this state
            good = await self._settle()
            self.machine.state = State.SYNCING
            if good:
                await self._leave_window()
        failed = self.backend.status == b"E"
        if not self.backend.at_rest:
            await self._sync_backend(frame)
        self._pipeline.end()
        self.unsynced = self._holds_portal = self.pipelining = self._took_snapshot = False
        self.repetitions_max = REPETITIONS_MAX
        await self._leave_window()
        if failed and self.backend.status == b"T":
            await self.transaction.regained()
        await self._end_own_block()
        await self._end_portals()
        if self.backend.status == b"I":
            await self.transaction.ended()
        await self.cursors.look()
        await spread(self)
        self._ready()

    async def _sync_backend(self, frame: Frame) -> None:
        """Relay Sync, and pass on the answers to all that was sent before it."""
        self.backend.send(frame.data)
        while True:
            item = await self.backend.next()
            if isinstance(item, Frame) and item.type == ReadyForQuery.type:
                self.backend.at_rest = True
                return
            if isinstance(item, Frame):
                self._pipeline.answered(item)
            self.forward_item(item)
            await self.client.drain()


def _ignored() -> SluiceError:
    """PostgreSQL's error for a statement in a failed block."""
    said = "current transaction is aborted, commands ignored until end of transaction block"
    return SluiceError(SqlState.IN_FAILED_SQL_TRANSACTION, said)
