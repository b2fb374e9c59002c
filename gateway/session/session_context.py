"""What every part of a session uses: its two connections, and the relaying from one to the other.

The session's loop is `gateway.protocol.session`. Statements on the lake are executed by portals
(`gateway.statement.portal`), which receive this context.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote

from catalog.errors import SluiceError
from gateway.backend.connection import Backend, Item
from gateway.backend.meanings import Meanings
from gateway.client.connection import Client
from gateway.client.encoding import ClientEncoding
from gateway.client.message_thread import aside
from gateway.client.response_encoding import ResponseEncoding
from gateway.node.gateway_context import GatewayContext
from gateway.session.cancel_listener import check
from gateway.session.copy_relay import CopyRelay
from gateway.session.cursors import Cursors
from gateway.session.repeated_execution import REPETITIONS_MAX
from gateway.session.reported_settings import ReportedSettings
from gateway.session.session_timeouts import SessionTimeouts
from gateway.session.snapshot_pin import SnapshotPin
from gateway.transaction.inserted import Inserted
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

# Characters of a statement's text that Spark's UI shows.
_DESCRIBED_MAX: Final = 500


class Sent(NamedTuple):
    """A query message for the backend, and the offset of its text in the client's query string.

    `text` is the same text from the statement's beginning, for statements that run with more text around it.
    """

    raw: bytes
    offset: int
    text: str


class SessionContext:
    """A session's state: `machine` is the wire's, `tag` names its Spark jobs, `running` is the present work.

    `ends_with_statement`: the statement is the last of a simple query, and its transaction ends with it.
    `unsynced`: the backend has executed something since the last Sync, in an implicit transaction.
    `pipelining`: a message was executed since the last Sync: for PostgreSQL, later ones are in an implicit block.
    `repetitions_max`: how many further executions run with one (gateway/session/repeated_execution.py).
    `own_changes`: how many catalog rows the gateway itself has changed under the function guard; None without a guard.
    `ran_functions`: a function ran that may have opened cursors unknown to the gateway.
    `namings`: how often SQL may have changed which statement a prepared statement's name means; `renames_later`: it
    may do so unseen.
    `inserted`: what others like the INSERT that was carried out last can do without.
    `executing`: names whose EXECUTE is being routed. `doom` is the error for which a Spark job was ended.
    `attended`: the backend waits while Spark works (gateway.session.cancel_listener).
    `answering`: a message is being handled; `cancelled`: a CancelRequest came meanwhile.
    Relayed bytes are in the client's encoding both ways, all other texts in UTF-8.
    """

    def __init__(self, gateway: GatewayContext, client: Client, backend: Backend, user: str) -> None:
        self.gateway = gateway
        self.client = client
        self.backend = backend
        self.user = user
        self.machine = Machine()
        self.machine.state = State.IDLE
        # The gateway's own tags do not begin like a role's.
        self.tag = f"role:{quote(user, safe='')}/session-{backend.process_id}-{id(self):x}"
        self.running = self.tag
        self.cursors = Cursors(self)
        self.timeouts = SessionTimeouts(self)
        self.meanings = Meanings(backend, lambda: gateway.gateways.heard)
        self.reading = SnapshotPin(gateway.store.readers)
        self.transaction = Transaction(gateway, backend, self.cursors.hold, self.cursors.watch)
        self.ends_with_statement = False
        self.pipelining = False
        self.unsynced = False
        self.repetitions_max = REPETITIONS_MAX
        self.ran_functions = False
        self.own_changes: int | None = None
        self.namings = 0
        self.renames_later = False
        self.executing: set[str] = set()
        self.inserted: Inserted | None = None
        self.lake_active = False
        self.answering = False
        self.cancelled = False
        self._cancels: set[asyncio.Task[None]] = set()  # cancel requests that have not reached the backend yet
        self.thoughts: set[Callable[[], None]] = set()  # functions that stop work in `gateway.session.offload`
        self.deadline: float | None = None  # of the statement, by the loop's clock, once statement_timeout is known
        self.doom: SluiceError | None = None
        self.attended = False
        self.encoding = ClientEncoding(gateway.store.pool, backend.parameters)
        client.convert(ResponseEncoding(self.encoding))
        backend.forward = self.forward
        backend.check = partial(check, self)
        self.told = ReportedSettings(backend.parameters)
        self.copy = CopyRelay(self)

    @property
    def simple(self) -> bool:
        """Whether a simple query is being answered; the backend is then between transactions, or in a block."""
        return self.machine.state is State.SIMPLE_QUERY

    @property
    def in_transaction(self) -> bool:
        """Whether the backend may have uncommitted work."""
        return self.backend.status != b"I" or self.unsynced

    def note_names(self, statements: Sequence[Statement], *, later: bool = False) -> None:
        """Before statements are relayed: note those that add or remove names of prepared statements, at once or
        `later`, whenever a client executes them.
        """
        if any(statement.first_word in {"prepare", "deallocate", "discard"} for statement in statements):
            self.namings += 1
            self.renames_later = self.renames_later or later

    def run_functions(self) -> None:
        """Note that a function made by a user runs, which may open cursors and name prepared statements."""
        self.ran_functions = True
        self.namings += 1
        self.meanings.disturb()

    def is_named_since(self, naming: int) -> bool:
        """Whether a name may mean another statement than when `namings` was `naming`."""
        return self.renames_later or self.namings != naming

    def has_portal(self, _: str) -> bool:
        """Whether the protocol has a portal of that name that the backend does not have."""
        return False

    def send_noted(self, message: Message) -> None:
        """Send a message that may change the wire's state."""
        self.machine.sent(type(message))
        self.client.send(message)

    @contextmanager
    def running_statement(self, text: str) -> Iterator[None]:
        """While a statement on the lake runs: Spark's UI shows its user and text, and a CancelRequest stops it."""
        self.doom = None
        self.lake_active = True
        described = " ".join(text[:_DESCRIBED_MAX].split())
        self.gateway.engine.describe(self.tag, f"{self.user}: {described}" if described else "")
        try:
            yield
        finally:
            self.gateway.engine.describe(self.tag, "")
            self.lake_active = False

    @contextmanager
    def cancellable(self, tag: str) -> Iterator[None]:
        """While it lasts, a CancelRequest stops the engine's jobs of this tag."""
        before = self.running, self.lake_active
        self.running, self.lake_active = tag, True
        try:
            yield
        finally:
            self.running, self.lake_active = before

    async def cancel(self) -> None:
        """Handle a CancelRequest for this session: stop the work at the backend or in Spark.

        PostgreSQL forgets a cancel that reaches an idle backend, such as between two questions of the gateway. So code
        that executes a statement checks `cancelled` too (`gateway.session.cancel_listener.check`). While a request is
        under way, further ones wait for it; no statement begins before it has arrived (`begin_answering`).
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
            request.exception()  # the caller that still waits gets the error

    async def begin_answering(self) -> None:
        """Begin a message, after earlier cancel requests have arrived."""
        while self._cancels and not self.backend.ended.is_set():
            ended = asyncio.create_task(self.backend.ended.wait())
            await asyncio.wait((ended, *self._cancels), return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
        self.answering, self.cancelled = True, False
        self.begin_statement()

    def begin_statement(self) -> None:
        """statement_timeout counts from now: for each statement of a simple query."""
        self.deadline, self.backend.begun = None, time.monotonic()

    async def schema_changed(self) -> None:
        """A schema has changed elsewhere: end Spark's job if the transaction is doomed."""
        enlistment = self.transaction.enlistment
        if self.lake_active and await enlistment.hear() and self.lake_active:
            self.doom = enlistment.doom
            self.gateway.engine.cancel(self.running)

    async def relay_query(
        self, raw: bytes, offset: int = 0, hidden: str | None = None, *, is_calm: bool = False
    ) -> bool:
        """Send a message and pass on all answers before ReadyForQuery, which the caller reads.

        `offset` is where its text begins in the client's query string; notices of the SQLSTATE `hidden` are left out.
        `is_calm`: it does not change what names mean.
        Returns False if the message failed.
        """
        await self.client.settle()
        if not is_calm:
            self.meanings.disturb()
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
        """The backend's next answer; while the backend reads a COPY, the client's data goes to it."""
        await self.copy.feed()
        return await self.backend.next()

    async def pass_on(self, frame: Frame) -> None:
        """Pass on one frame other than a row. Reported settings are sent before ReadyForQuery."""
        if frame.type == ParameterStatus.type:
            return
        self.machine.sent(BACKEND[frame.type])
        if frame.type != CommandComplete.type or not self.client.keep_tag(frame.data):
            await self.client.relay_whole(frame.data)
        if frame.type in (CopyInResponse.type, CommandComplete.type):
            self.copy.begin()
            await self.client.drain()
        elif frame.type == ErrorResponse.type:
            await self.copy.failed()

    def forward(self, data: bytes) -> None:
        """Pass on PostgreSQL's asynchronous messages that come among answers to the gateway's own statements."""
        if data[0] != ParameterStatus.type:
            self.client.relay(data)

    def forward_item(self, item: Item) -> None:
        """`forward` for an item of the backend's connection; rows are cut anywhere, their first byte is no type."""
        if isinstance(item, Frame):
            self.forward(item.data)
        else:
            self.client.relay(item)


def is_notice(frame: Frame, sqlstate: str | None) -> bool:
    """Whether it is a notice of this SQLSTATE; false for None."""
    return sqlstate is not None and frame.type == NoticeResponse.type and sqlstate.encode() in frame.head


def _shifted(offset: int, frame: Frame) -> Frame:
    """A relayed error with its position counted from the beginning of the whole query string."""
    error = ErrorResponse.decode(frame.body, strict=False).to_error()
    shift(error, offset)
    return Frame(frame.type, ErrorResponse.from_error(error).encode())


def shift(error: SluiceError, offset: int) -> None:
    """Count an error's position from the beginning of the whole query string."""
    position = error.fields.get("P")
    if offset and position is not None:
        error.fields["P"] = str(int(position) + offset)
