"""A session's connection to the catalog's PostgreSQL: the client side of the protocol.

Contract: one coroutine at a time uses a backend. `run` executes the gateway's own statements, whose notices never
reach the client; `send` and `next` are for relaying. After the connection is lost, every call raises
`BackendLostError`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from catalog.errors import SluiceError, SqlState
from catalog.postgres.backends import BackendId
from gateway.backend.activity import Activity
from gateway.backend.backend_encoding import TO_UTF8, back, switched
from gateway.backend.cancel_request import send_cancel_request
from gateway.backend.dsn import Address
from gateway.backend.encoded_statement import CLOSES_AFTER, CLOSES_BEFORE, closing, encoded, encoded_parts, is_large
from gateway.backend.error_context import without_own_context
from gateway.backend.messages_aside import MessagesAside
from gateway.backend.own_message import Told
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.client.encoding import converts
from gateway.client.loop_turns import LoopTurns
from gateway.client.message_thread import aside
from gateway.wire.framing import LARGE_BYTES, Frame, RelayScanner
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend, startup
from gateway.wire.messages.backend import (
    Authentication,
    BackendKeyData,
    DataRow,
    ErrorResponse,
    NoticeResponse,
    NotificationResponse,
    ParameterStatus,
    ReadyForQuery,
    decode_backend,
    row_values,
)
from gateway.wire.messages.copy import CopyData, CopyInResponse
from gateway.wire.messages.layout import Message
from gateway.wire.scram import MECHANISM, ClientKeys, ScramClient

_READ_BYTES: Final = 1 << 17
# The severity in an ErrorResponse after which PostgreSQL ends the connection, and the greatest duration of that.
_FATAL: Final = b"\0VFATAL\0"
_ENDING: Final = (_FATAL, b"\0VPANIC\0")
_COMMAND_MAX: Final = 1000  # a savepoint's name is much shorter
_END_SECONDS: Final = 0.2
# The name of the statements that switch the encoding.
_SWITCH: Final = f"{OWN}_switch"
# Bytes of rows that are collected for one part.
_PART_BYTES: Final = 8 << 20
# Bytes that may wait to be sent.
_BEHIND_BYTES: Final = 1 << 16
_RELAYED_ROWS: Final = (DataRow, CopyData)

_SYNC: Final = frontend.Sync().encode()
_FLUSH: Final = frontend.Flush().encode()
# Answers to the gateway's own messages that say nothing, and those that change nothing of the session.
_SILENT: Final = frozenset({answers.ParseComplete.type, answers.BindComplete.type, CopyInResponse.type})
_PLAIN: Final = _SILENT | {answers.CloseComplete.type, answers.CommandComplete.type, DataRow.type}

Item = Frame | memoryview


class BackendLostError(SluiceError):
    """The connection to the catalog is lost; `said` is PostgreSQL's last message."""

    def __init__(self, said: SluiceError | None = None) -> None:
        if said is not None:
            super().__init__(said.sqlstate, said.message, severity=said.severity)
            self.fields = dict(said.fields)
            return
        super().__init__(
            SqlState.CRASH_SHUTDOWN,
            "terminating connection because the catalog's PostgreSQL was restarted",
            hint="In a moment you should be able to reconnect to the database and repeat your command.",
            severity="FATAL",
        )


@dataclass(slots=True)
class Result:
    """The result of a statement. With `bodies_only`, rows are the bodies of DataRow frames, undecoded; with binary
    values they are the tuples of COPY's binary format.
    """

    rows: list[tuple[bytes | None, ...]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    notices: list[NoticeResponse] = field(default_factory=list)
    parameter_types: tuple[int, ...] = ()
    tag: str = ""


class _Answers(asyncio.StreamReader):
    """Reads PostgreSQL's messages to the end: an error of sending does not hide why the connection has ended."""

    def set_exception(self, exc: BaseException) -> None:  # noqa: ARG002  the name is asyncio's
        self.feed_eof()


class Backend:
    """An open connection. `status` is ReadyForQuery's: I, T or E. `is_bound`: `run` met an error after a Bind."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address) -> None:
        self._reader = reader
        self._writer = writer
        # A duplicate of the socket: an error of sending closes the other one together with unread messages.
        self._unread = socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno()))
        self._scanner = RelayScanner()
        self._ready: deque[Item] = deque()
        self._turns = LoopTurns()
        self._reading: asyncio.Task[bytes] | None = None
        self._last_word: SluiceError | None = None
        self._said_end = False
        # Set as soon as the connection has ended, whether or not anybody reads.
        self.ended = asyncio.Event()
        self.address = address
        self.status = b"I"
        # Whether all that was sent is answered, and ended with Sync.
        self.at_rest = self.is_bound = False
        self.process_id = self.ended_transactions = 0  # the latter: how often it was outside of a block
        self.started = 0  # as in BackendId, after the first identification
        self.key = b""
        self.told: Told | None = None  # set when the connection serves a client
        self.parameters: dict[str, str] = {}
        # When the client's statement began, by the monotonic clock; `check` raises 57014 if it has been cancelled.
        self.begun = time.monotonic()
        self.check: Callable[[], None] = lambda: None
        # The client's statement, which pg_stat_activity shows while the gateway works for it.
        self.activity = Activity()
        self.aside = MessagesAside()
        # Lasting statements that were executed since the list was emptied; None if they are not recorded.
        self.repeated: list[Statement] | None = None
        self._names_linger = False  # an error may have left a statement or portal under the gateway's own names
        # The gateway's open savepoints begun since the list was emptied, innermost last.
        self.savepoints: list[str] = []
        # Called with ParameterStatus and NotificationResponse that come among the gateway's own statements.
        self.forward: Callable[[bytes], None] = lambda _: None

    @classmethod
    async def connect(cls, address: Address, parameters: Sequence[tuple[str, str]], keys: ClientKeys | None) -> Backend:
        """Connect and log in; raises PostgreSQL's error if it refuses."""
        loop = asyncio.get_running_loop()
        reader = _Answers(limit=_READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport: asyncio.WriteTransport
        try:
            if address.host.startswith("/"):
                path = f"{address.host}/.s.PGSQL.{address.port}"
                transport, _ = await loop.create_unix_connection(lambda: protocol, path)
            else:
                transport, _ = await loop.create_connection(lambda: protocol, address.host, address.port)
        except OSError as error:
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW, f"the catalog cannot be reached: {error.strerror}", severity="FATAL"
            ) from error
        backend = cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), address)
        try:
            await backend._log_in(parameters, keys)
        except BaseException:
            backend.close()
            raise
        return backend

    async def _log_in(self, parameters: Sequence[tuple[str, str]], keys: ClientKeys | None) -> None:
        self.send(startup.StartupMessage(startup.PROTOCOL_3_0, tuple(parameters)).encode())
        scram = None if keys is None else ScramClient(keys)
        while True:
            frame = await self.next()
            assert isinstance(frame, Frame)
            message = decode_backend(frame.type, frame.body)
            match message:
                case ErrorResponse():
                    raise message.to_error()
                case answers.AuthenticationSASL(mechanisms) if scram is not None and MECHANISM in mechanisms:
                    self.send(frontend.SASLInitialResponse(MECHANISM, scram.first()).encode())
                case answers.AuthenticationSASLContinue(data) if scram is not None:
                    self.send(frontend.SASLResponse(scram.reply(data)).encode())
                case answers.AuthenticationSASLFinal(data) if scram is not None:
                    scram.verify(data)
                case answers.AuthenticationOk():
                    pass
                case Authentication():
                    raise SluiceError(
                        SqlState.INVALID_AUTHORIZATION,
                        "the catalog asks for an authentication that the gateway cannot pass on",
                        hint="Roles need a SCRAM-SHA-256 password, or the catalog must trust the gateway's address.",
                        severity="FATAL",
                    )
                case ParameterStatus(name, value):
                    self.parameters[name] = value
                case BackendKeyData(process_id, key):
                    self.process_id, self.key = process_id, key
                case ReadyForQuery(status):
                    self.status = status
                    return
                case _:
                    pass

    def send_in_utf8(self, sent: Sequence[bytes], *ends: Message) -> None:
        """Send messages of the extended protocol with texts in UTF-8, then `ends` (Sync or Flush).

        Their answers come between the answers to `switching`.
        """
        before, after = self.switching
        small: list[bytes] = []
        for part in (before, *sent, after, *(message.encode() for message in ends)):
            if len(part) < LARGE_BYTES:
                small.append(part)
            else:  # copying it takes long
                self.send(b"".join(small), part)
                small.clear()
        self.send(b"".join(small))

    @property
    def switching(self) -> tuple[bytes, bytes]:
        """The statements that switch to UTF-8 and back, or none if the client's encoding needs none."""
        if not converts(self.parameters) or self.status == b"E":
            return b"", b""
        to, fro = (b"".join(encoded_parts(Statement(sql), _SWITCH)) for sql in (TO_UTF8, back(self.parameters)))
        return to, fro

    @property
    def comment(self) -> bytes:
        """The comment that shows the client's statement, for a statement of the gateway."""
        return self.activity.comment(in_utf8=not converts(self.parameters))

    def send(self, *parts: bytes | memoryview) -> None:
        """Begin to send bytes. If the backend is lost, the reader of the answer gets the reason."""
        self.at_rest = False
        # Each write wakes the backend; copying large parts takes longer than that.
        for data in [b"".join(parts)] if sum(map(len, parts)) < LARGE_BYTES else parts:
            if not self._writer.is_closing():
                self._writer.write(data)

    def send_end(self) -> None:
        """Nothing more is sent: when the backend has done what it was asked, it ends the connection."""
        if not self._writer.is_closing() and not self._said_end:
            self._said_end = True
            self._writer.write_eof()

    async def drain(self) -> None:
        """Wait until the backend accepts more."""
        try:
            await self._writer.drain()
        except OSError:
            raise BackendLostError(self._last_word) from None

    @property
    def is_behind(self) -> bool:
        """Whether sent bytes still wait for the backend."""
        return self._writer.transport.get_write_buffer_size() > _BEHIND_BYTES

    def put_back(self, item: Item) -> None:
        """Make `next` return the item again."""
        self._ready.appendleft(item)

    def reading(self) -> asyncio.Task[bytes]:
        """The present read, done when `next` has a result."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> bytes:
        """The next bytes; none at the end. The reason for the connection's end comes together with the end."""
        data = await self._reader.read(_READ_BYTES)
        if data[:1] == b"E" and _FATAL in data:
            try:
                async with asyncio.timeout(_END_SECONDS):
                    rest = await self._reader.read(_READ_BYTES)
            except TimeoutError:
                return data
            if not rest:
                self.ended.set()
            return data + rest
        if not data:
            self.ended.set()
        return data

    @property
    def identity(self) -> BackendId:
        """Identifies the backend, also across restarts of PostgreSQL."""
        return BackendId(self.process_id, self.started)

    @property
    def has_more(self) -> bool:
        """Whether `next` returns without waiting."""
        return bool(self._ready)

    async def next(self) -> Item:
        """The next frame, or the next run of rows as received. May be cancelled without loss.

        PostgreSQL's last message before it ends the connection is raised as an error.
        """
        item = self._plain() or await self._item()
        while isinstance(item, Frame) and self._keeps(item):
            item = await self._item()
        if isinstance(item, Frame):
            if item.type == ReadyForQuery.type:
                self.status = item.data[5:6]
                self.ended_transactions += self.status == b"I"
            elif item.type == ParameterStatus.type:
                status = ParameterStatus.decode(item.body, strict=False)
                self.parameters[status.name] = status.value
        return item

    def _keeps(self, frame: Frame) -> bool:
        """Whether the message is not for the client."""
        if frame.type == ErrorResponse.type:
            self._names_linger = True
            return self._is_last_word(frame)
        return self.aside.takes(frame)

    async def _item(self) -> Item:
        await self._turns.give_way()
        while not self._ready:
            data = await asyncio.shield(self.reading())
            self._reading = None
            self._turns.begin()
            if not data and not (data := self._rest()):
                raise BackendLostError(self._last_word)
            self._ready.extend(self._scanner.feed(data))
        first = self._ready[0]
        if isinstance(first, Frame) and first.type == ErrorResponse.type:
            # It stays in place until it is complete, because the caller may be cancelled.
            self._ready[0] = await aside(without_own_context, first, is_large=first.is_large)
        return self._ready.popleft()

    def _plain(self) -> Frame | None:
        """The next frame, if it was received and changes nothing of the session, unless other tasks are due."""
        ready = self._ready and not self._turns.is_over
        if ready and isinstance(frame := self._ready[0], Frame) and frame.type in _PLAIN:
            self._ready.popleft()
            return frame
        return None

    def _rest(self) -> bytes:
        """The bytes that were received but not read when an error of sending closed the connection."""
        try:
            return self._unread.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except OSError:
            return b""

    def _is_last_word(self, frame: Frame) -> bool:
        if not any(ends in frame.head for ends in _ENDING):
            return False
        error = ErrorResponse.decode(frame.body, strict=False).to_error()
        error.fields.pop("W", None)  # the context is mostly the gateway's own code
        self._last_word = error
        return True

    def abort(self, said: SluiceError) -> None:
        """Drop the connection without Terminate; callers that wait for an answer get this error."""
        self._last_word = said
        self._unread.close()
        self._writer.transport.abort()
        self.ended.set()

    def close(self) -> None:
        """Close the connection; PostgreSQL rolls back the open transaction."""
        self._unread.close()
        if self._reading is not None:
            self._reading.cancel()
        if not self._writer.is_closing():
            if not self._reader.at_eof() and not self._said_end:
                self._writer.write(frontend.Terminate().encode())
            self._writer.close()

    async def run(self, *statements: Statement, sync: bool = True, switching: bool = True) -> list[Result]:
        """Execute statements of the gateway in one round trip and, outside of a block, in one transaction.

        Raises the first error as SluiceError, without CONTEXT, which may quote the gateway's code; no later ones run.
        Without `sync` the implicit transaction stays open. All texts are in UTF-8; without `switching`, in the client's
        encoding. Without statements, and at rest, nothing is sent.
        """
        if not statements and self.at_rest:
            return []
        order = switched([each.sql for each in statements], self.parameters if switching else {}, self.status)
        sent = [Statement(each) if isinstance(each, str) else statements[each] for each in order]
        for statement in sent:
            self._note_savepoint(statement.sql)
        out = await aside(partial(encoded, comment=self.comment), sent, is_large=any(map(is_large, sent)))
        self._scanner.passing = frozenset()
        closed, self._names_linger = self._names_linger, False
        try:
            self.send(*([closing()] if closed else []), *out, _SYNC if sync else _FLUSH)
            results = await self._results(sent, sync, closed=CLOSES_BEFORE if closed else 0)
            self._names_linger |= len(results) < len(sent)  # skipped up to Sync, with the Closes
            self.at_rest = sync
            if sync and self.status == b"I":
                self.savepoints.clear()
            if self.repeated is not None:
                self.repeated += [statement for statement in statements if statement.lasting]
            return [result for result, each in zip(results, order, strict=False) if not isinstance(each, str)]
        except asyncio.CancelledError:
            self._names_linger = True
            if sync:
                await self.give_up()
            raise
        finally:
            self._scanner.passing = frozenset(kind.type for kind in _RELAYED_ROWS)

    def _note_savepoint(self, sql: str) -> None:
        command, _, name = sql.rpartition("SAVEPOINT ") if len(sql) <= _COMMAND_MAX else ("", "", sql)
        if not command and sql != name:
            self.savepoints.append(name)
        elif command in {"RELEASE ", "ROLLBACK TO "} and name in self.savepoints:
            while self.savepoints.pop() != name:
                pass
            if command == "ROLLBACK TO ":
                self.savepoints.append(name)

    async def _results(  # noqa: C901  one case for each kind of answer
        self, statements: Sequence[Statement], sync: bool, *, closed: int
    ) -> list[Result]:
        """The results; `closed` CloseCompletes come before them."""
        count, results = len(statements), [Result()]
        closed, size = -closed, 0
        error: SluiceError | None = None
        while sync or (len(results) <= count and error is None):
            frame = self._plain() or await self.next()
            assert isinstance(frame, Frame)
            if frame.type in _SILENT:
                self.is_bound = frame.type == answers.BindComplete.type
                continue
            if frame.type == answers.CloseComplete.type:
                closed += 1
                if closed > 0 and closed % CLOSES_AFTER == 0:
                    results.append(Result())
                continue
            if frame.type == DataRow.type:
                statement = statements[min(len(results), count) - 1]
                if not statement.bodies_only:
                    results[-1].rows.append(row_values(frame.data))
                    continue
                results[-1].bodies.append(frame.body)
                size += len(frame.data)
                if statement.take is not None and size > _PART_BYTES:
                    await self._hand_over(results[-1], statement.take)
                    size = 0
                continue
            if frame.type == ReadyForQuery.type:
                break
            if frame.type == answers.CommandComplete.type:
                self.is_bound = False
                results[-1].tag = frame.body[:-1].decode()
                continue
            message = decode_backend(frame.type, frame.body)
            match message:
                case ErrorResponse():
                    error = message.to_error()
                    if len(results) > count or not statements[len(results) - 1].of_client:
                        error.fields.pop("W", None)
                case NoticeResponse():
                    results[-1].notices.append(message)
                case ParameterStatus() | NotificationResponse():
                    self.forward(frame.data)
                case _:
                    pass
        if error is not None:
            if len(results) <= count and results[-1].bodies and (take := statements[len(results) - 1].take) is not None:
                await take(results[-1].bodies)
            raise error
        return results[:-1]

    async def _hand_over(self, result: Result, take: Callable[[list[bytes]], Awaitable[None]]) -> None:
        part, result.bodies = result.bodies, []
        try:
            await take(part)
        except Exception:
            await self.give_up()
            raise

    async def give_up(self) -> None:
        """Cancel the backend's statement, and read its answers up to ReadyForQuery."""
        self._names_linger = True
        await self.request_cancel()
        while True:
            item = await self.next()
            if isinstance(item, Frame) and item.type == ReadyForQuery.type:
                return

    async def request_cancel(self) -> None:
        """Ask PostgreSQL to cancel this backend's statement, over a separate connection."""
        try:
            await send_cancel_request(self.address, self.process_id, self.key)
        except OSError:
            raise BackendLostError(self._last_word) from None
