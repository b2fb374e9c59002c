"""What every part of a session works with: its two connections, and what is simply passed from one to the other.

The session's loop is `gateway.protocol.session`; statements on the lake are carried out by portals
(`gateway.statement.portal`), which are handed the exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from catalog.errors import SluiceError
from gateway.backend.connection import Backend, Item
from gateway.client.connection import Client
from gateway.client.encoding import ClientEncoding
from gateway.client.message_thread import aside
from gateway.client.response_encoding import Outgoing
from gateway.node.gateway_context import GatewayContext
from gateway.session.copy_relay import RelayedCopy
from gateway.session.cursors import Cursors
from gateway.session.repeated_execution import REPETITIONS_MAX
from gateway.session.reported_settings import ToldSettings
from gateway.session.session_timeouts import SessionTimeouts
from gateway.session.snapshot_pin import SessionReading
from gateway.transaction.transaction import Transaction
from gateway.wire.framing import Frame
from gateway.wire.messages.backend import (
    BACKEND,
    CommandComplete,
    ErrorResponse,
    NoticeResponse,
    ParameterStatus,
    ReadyForQuery,
)
from gateway.wire.messages.copy import CopyInResponse
from gateway.wire.messages.layout import Message
from gateway.wire.states import Machine, State
from planner.syntax.statements import Statement


class Sent(NamedTuple):
    """A query message for the backend, and where its text begins in the client's query string.

    `text` is the same from where the statement begins, for what is carried out with more around it.
    """

    raw: bytes
    offset: int
    text: str


class SessionContext:
    """`machine` is the wire's state, `tag` the engine's name for what this session runs, `running` for what runs now.

    `ends_with_statement`: the statement under way is the last of a simple query, and its transaction ends with it.
    `unsynced`: the backend has carried out something since the last Sync, in an implicit transaction.
    `pipelining`: something has been executed since the last Sync: for PostgreSQL, what follows is in an implicit block.
    `repetitions_max`: so many executions behind one are carried out with it (gateway/session/repeated_execution.py).
    `own_changes`: how many rows of catalogs the gateway itself has changed while functions are watched for that; None
    where they are not. `ran_functions`: something ran that may have opened cursors past the gateway.
    `names_by_sql`: what a prepared statement's name stands for may have been changed by SQL.
    `executing`: names whose EXECUTE is being routed. `doom` is why what ran in Spark was ended. `attended`: the backend
    waits while Spark works (gateway.session.cancel_listener). `answering`: a message is taken up; `cancelled`: a
    CancelRequest came meanwhile. What is relayed is in the client's encoding both ways, all else in UTF-8.
    """

    def __init__(self, gateway: GatewayContext, client: Client, backend: Backend, user: str) -> None:
        self.gateway = gateway
        self.client = client
        self.backend = backend
        self.user = user
        self.machine = Machine()
        self.machine.state = State.IDLE
        self.tag = f"session-{backend.process_id}-{id(self):x}"
        self.running = self.tag
        self.cursors = Cursors(self)
        self.timeouts = SessionTimeouts(self)
        self.reading = SessionReading(gateway.store.readers)
        self.transaction = Transaction(gateway, backend, self.cursors.hold)
        self.ends_with_statement = False
        self.pipelining = False
        self.unsynced = False
        self.repetitions_max = REPETITIONS_MAX
        self.ran_functions = False
        self.own_changes: int | None = None
        self.names_by_sql = False
        self.executing: set[str] = set()
        self.lake_active = False
        self.answering = False
        self.cancelled = False
        self._cancels: set[asyncio.Task[None]] = set()  # that have not reached the backend yet
        self.thoughts: set[Callable[[], None]] = set()  # what stops each piece of work in `gateway.session.offload`
        self.deadline: float | None = None  # of the statement, by the loop's clock, once statement_timeout is known
        self.doom: SluiceError | None = None
        self.attended = False
        self.encoding = ClientEncoding(gateway.store.pool, backend.parameters)
        client.convert(Outgoing(self.encoding))
        backend.forward = self.forward
        self.told = ToldSettings(backend.parameters)
        self.copy = RelayedCopy(self)

    @property
    def simple(self) -> bool:
        """Whether a simple query is being answered: the backend is then between transactions, or in a block."""
        return self.machine.state is State.SIMPLE_QUERY

    @property
    def in_transaction(self) -> bool:
        """Whether the backend may hold something that is not committed."""
        return self.backend.status != b"I" or self.unsynced

    def note_names(self, statements: Sequence[Statement]) -> None:
        """Before statements are carried out unseen: those that give names of prepared statements, or take them away."""
        if any(statement.first_word in {"prepare", "deallocate", "discard"} for statement in statements):
            self.names_by_sql = True

    def has_portal(self, _: str) -> bool:
        """Whether the protocol has a portal of that name that the backend does not know of."""
        return False

    def send_noted(self, message: Message) -> None:
        """Send a message that may change the wire's state."""
        self.machine.sent(type(message))
        self.client.send(message)

    def begin_running(self) -> None:
        """A statement on the lake begins."""
        self.doom = None
        self.lake_active = True

    @contextmanager
    def cancellable(self, tag: str) -> Iterator[None]:
        """While it lasts, a CancelRequest stops what the engine runs under this tag."""
        before = self.running, self.lake_active
        self.running, self.lake_active = tag, True
        try:
            yield
        finally:
            self.running, self.lake_active = before

    async def cancel(self) -> None:
        """A CancelRequest came for this session: stop what runs, at the backend or in Spark.

        PostgreSQL forgets one that comes while its backend rests, as it does between two questions of the gateway's: so
        whoever carries a statement out looks at `cancelled` too (`gateway.session.cancel_listener.check`). While one is
        under way, further ones wait for it: no statement begins before it has come (`begin_answering`).
        """
        self.cancelled = self.answering
        for stop in tuple(self.thoughts):
            stop()
        if self.lake_active:
            self.gateway.engine.cancel(self.running)
        if not self._cancels:
            request = asyncio.create_task(self.backend.request_cancel())
            self._cancels.add(request)
            request.add_done_callback(self._cancel_sent)
        await asyncio.shield(next(iter(self._cancels)))

    def _cancel_sent(self, request: asyncio.Task[None]) -> None:
        self._cancels.discard(request)
        if not request.cancelled():
            request.exception()  # whoever waits for it is told, if he still does

    async def begin_answering(self) -> None:
        """A message is taken up: what was to be cancelled before it has been."""
        while self._cancels and not self.backend.ended.is_set():
            ended = asyncio.create_task(self.backend.ended.wait())
            await asyncio.wait((ended, *self._cancels), return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
        self.answering, self.cancelled, self.deadline = True, False, None

    async def schema_changed(self) -> None:
        """Somebody has changed a schema: end what runs in Spark where its transaction is doomed by that."""
        enlistment = self.transaction.enlistment
        if self.lake_active and await enlistment.hear() and self.lake_active:
            self.doom = enlistment.doom
            self.gateway.engine.cancel(self.running)

    async def relay_query(self, raw: bytes, offset: int = 0, hidden: str | None = None) -> bool:
        """Send a message and pass on everything up to ReadyForQuery, which is left to the caller.

        `offset` is where its text begins in the client's query string; notices of the SQLSTATE `hidden` are left out.
        False where it failed.
        """
        await self.client.settle()
        self.backend.send(raw)
        good = True
        while True:
            item = await self.next_item()
            if isinstance(item, Frame):
                if item.type == ReadyForQuery.type:
                    return good
                if item.type == ErrorResponse.type:
                    good = False
                    if offset:
                        item = await aside(partial(_shifted, offset), item, is_large=item.is_large)
                if not is_notice(item, hidden):
                    await self.pass_on(item)
            else:
                self.client.relay(item)
            await self.client.drain()

    async def next_item(self) -> Item:
        """What the backend says next; while it takes a COPY's data, the client's goes to it."""
        await self.copy.feed()
        return await self.backend.next()

    async def pass_on(self, frame: Frame) -> None:
        """One relayed frame other than a row. Of settings the client is told before ReadyForQuery."""
        if frame.type == ParameterStatus.type:
            return
        self.machine.sent(BACKEND[frame.type])
        await self.client.relay_whole(frame.data)
        if frame.type in (CopyInResponse.type, CommandComplete.type):
            self.copy.begin()
            await self.client.drain()
        elif frame.type == ErrorResponse.type:
            await self.copy.failed()

    def forward(self, data: bytes | memoryview) -> None:
        """Pass on what PostgreSQL says by itself, among the answers to questions of the gateway's own."""
        if data[0] != ParameterStatus.type:
            self.client.relay(data)

    def forward_item(self, item: Item) -> None:
        """The same, of what the backend's connection gives."""
        self.forward(item.data if isinstance(item, Frame) else item)


def is_notice(frame: Frame, sqlstate: str | None) -> bool:
    """Whether it is a notice of this SQLSTATE; of None nothing is."""
    return sqlstate is not None and frame.type == NoticeResponse.type and sqlstate.encode() in frame.head


def _shifted(offset: int, frame: Frame) -> Frame:
    """A relayed error whose position counts from the beginning of the whole query string."""
    error = ErrorResponse.decode(frame.body, strict=False).to_error()
    shift(error, offset)
    return Frame(frame.type, ErrorResponse.from_error(error).encode())


def shift(error: SluiceError, offset: int) -> None:
    """An error's position counts from the beginning of the whole query string."""
    position = error.fields.get("P")
    if offset and position is not None:
        error.fields["P"] = str(int(position) + offset)
