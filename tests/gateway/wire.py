"""A client that sends exactly a test's messages, and reads every answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gateway.wire.framing import BACKEND_LIMITS, FrameReader
from gateway.wire.messages import backend, frontend, startup
from gateway.wire.messages.backend import decode_backend
from gateway.wire.messages.copy import CopyData
from gateway.wire.messages.layout import Message
from tests.servers import Server

_SECONDS_MAX = 60.0


class Wire:
    """An open connection after startup. `greeting` holds the answers before the first ReadyForQuery."""

    def __init__(self, server: Server, *, version: int = startup.PROTOCOL_3_0, **parameters: str) -> None:
        self._socket = socket.create_connection((server.host, server.port), _SECONDS_MAX)
        self._frames = FrameReader(BACKEND_LIMITS, "backend")
        named = {"user": server.user, "database": server.database, **parameters}
        try:
            self.send(startup.StartupMessage(version, tuple(named.items())))
            self.greeting = self.read_until(backend.ReadyForQuery)
        except BaseException:
            self._socket.close()
            raise

    def send(self, *messages: Message) -> None:
        self._socket.sendall(b"".join(message.encode() for message in messages))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end(self) -> None:
        """Send no more."""
        self._socket.shutdown(socket.SHUT_WR)

    def read(self) -> Message:
        while (frame := self._frames.next_frame()) is None:
            data = self._socket.recv(65536)
            assert data, "the server closed the connection"
            self._frames.feed(data)
        return decode_backend(frame.type, frame.body)

    def read_until(self, kind: type[Message]) -> list[Message]:
        found: list[Message] = []
        while not found or not isinstance(found[-1], kind):
            found.append(self.read())
        return found

    def ask(self, *messages: Message) -> list[Message]:
        """Send, and read up to ReadyForQuery; with what differs from server to server made equal."""
        self.send(*messages)
        found: list[Message] = []
        for message in self.read_until(backend.ReadyForQuery):
            # How a COPY's data is cut into messages is the server's own choice.
            if isinstance(message, CopyData) and found and isinstance(found[-1], CopyData):
                found[-1] = CopyData(found[-1].data + message.data)
            else:
                found.append(_comparable(message))
        return found

    def query(self, sql: str) -> list[Message]:
        return self.ask(frontend.Query(sql))

    def at_end(self) -> bool:
        """Whether the server says no more, and ends the connection."""
        return not self._frames.buffered and not self._socket.recv(1)

    def hang_up(self) -> None:
        """Go without a word."""
        self._socket.close()

    def close(self) -> None:
        self.send(frontend.Terminate())
        self._socket.close()


def _comparable(message: Message) -> Message:
    match message:
        case backend.RowDescription(columns):
            return backend.RowDescription(
                tuple(replace(column, table_oid=int(column.table_oid > 0)) for column in columns)
            )
        case backend.ErrorResponse(fields) | backend.NoticeResponse(fields):
            # File, line and routine are of PostgreSQL's sources; the context may be that of a function of ours.
            return type(message)(tuple(field for field in fields if field[0] not in "FLRW"))
    return message


@contextmanager
def wire(server: Server, *, version: int = startup.PROTOCOL_3_0, **parameters: str) -> Iterator[Wire]:
    connection = Wire(server, version=version, **parameters)
    try:
        yield connection
    finally:
        connection.close()


def assert_same_answers(both: tuple[Server, Server], script: Sequence[Sequence[Message]]) -> None:
    """What each says to the same messages, asked bit by bit, must be the same; `both` begins with PostgreSQL."""
    answers = []
    for server in both:
        with wire(server) as connection:
            answers.append([connection.ask(*messages) for messages in script])
    for asked, wanted, found in zip(script, *answers, strict=True):
        assert found == wanted, f"{asked}\nis answered by {found}\nin place of {wanted}"
