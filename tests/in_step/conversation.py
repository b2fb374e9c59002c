"""Send a sequence to a server, in pieces cut anywhere, and read all answers until the server rests."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from gateway.wire.framing import BACKEND_LIMITS, FrameReader
from gateway.wire.messages import backend, frontend, startup
from gateway.wire.messages.backend import decode_backend
from gateway.wire.messages.copy import CopyData, CopyFail
from gateway.wire.messages.layout import Message
from tests.in_step.sequences import ASLEEP, Cancel, Step
from tests.servers import Server

SCHEMA: Final = "step"
_SECONDS_MAX: Final = 15.0
# A statement that has not said by then that it sleeps never will: there was an error before it.
_SLEEP_SECONDS: Final = 3.0
_LAST: Final = "the end"
# Brings a connection to rest, wherever it is, and shows what the sequence has left.
_FINALE: Final = (
    CopyFail("the end"),
    frontend.Sync(),
    frontend.Query("ROLLBACK"),
    frontend.Query("SET search_path = step"),
    frontend.Query("SELECT id, v FROM t ORDER BY id"),
    frontend.Query("SELECT relnatts FROM pg_class WHERE oid = 't'::regclass"),
    frontend.Query("SELECT to_regclass('step.u') IS NULL AS gone, current_setting('application_name') AS name"),
    frontend.Query("SELECT name, is_holdable FROM pg_cursors ORDER BY 1"),
    frontend.Query("SELECT name, from_sql FROM pg_prepared_statements ORDER BY 1"),
    frontend.Query(f"SELECT '{_LAST}' AS last"),
)  # fmt: skip
_RESET: Final = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA};"
    f" CREATE TABLE {SCHEMA}.t (id int PRIMARY KEY, v text);"
    f" INSERT INTO {SCHEMA}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')"
)


class Cut(StrEnum):
    """How bytes go out."""

    AT_ONCE = "at once"
    BYTES = "byte by byte"
    RANDOM = "cut at random"
    TURNS = "in turns"


Answers = list[Message | str]


class _Line:
    """A connection that reads without blocking for ever."""

    def __init__(self, server: Server, **parameters: str) -> None:
        self.server = server
        self._socket = socket.create_connection((server.host, server.port), _SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader(BACKEND_LIMITS, "backend")
        self._key: backend.BackendKeyData | None = None
        named = {"user": server.user, "database": server.database, **parameters}
        self.send(startup.StartupMessage(startup.PROTOCOL_3_0, tuple(named.items())).encode())
        while not isinstance(message := self.read(), backend.ReadyForQuery):
            assert not isinstance(message, str | backend.ErrorResponse), message
            if isinstance(message, backend.BackendKeyData):
                self._key = message

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # what the server has said before it went is still to be read

    def read(self, seconds: float = _SECONDS_MAX) -> Message | str:
        """The next message, or that there is none."""
        self._socket.settimeout(seconds)
        while (frame := self._frames.next_frame()) is None:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return "silence"
            except OSError:
                return "closed"
            if not data:
                return "closed"
            self._frames.feed(data)
        return decode_backend(frame.type, frame.body)

    def cancel(self) -> None:
        assert self._key is not None
        with socket.create_connection((self.server.host, self.server.port), _SECONDS_MAX) as other:
            other.sendall(startup.CancelRequest(self._key.process_id, self._key.key).encode())
            other.recv(1)

    def close(self) -> None:
        self._socket.close()


def reset(server: Server) -> None:
    """The tables are as at the beginning."""
    line = _Line(server, client_min_messages="warning")
    line.send(frontend.Query(_RESET).encode())
    while not isinstance(message := line.read(), backend.ReadyForQuery):
        assert not isinstance(message, str | backend.ErrorResponse), message
    line.close()


def converse(server: Server, steps: Sequence[Step], cut: Cut, seed: str) -> Answers:
    """All that the server says, with what differs from server to server made equal."""
    line = _Line(server, search_path=SCHEMA)
    try:
        heard: Answers = []
        for piece in _pieces([*steps, *_FINALE], cut, random.Random(seed)):
            if isinstance(piece, Cancel):
                heard += _cancelled(line)
                continue
            line.send(piece)
            if cut is Cut.TURNS:
                time.sleep(0.002)
        while not _is_last(heard):
            heard.append(line.read())
        if steps and isinstance(steps[-1], frontend.Terminate):
            heard = _up_to_rest(heard)  # who has said good-bye need not be told any more
        return list(_comparable(heard))
    finally:
        line.close()


def _cancelled(line: _Line) -> Answers:
    """Wait until the server rests, cancel what sleeps, and hear what it says to that."""
    heard: Answers = []
    while not isinstance(message := line.read(_SLEEP_SECONDS), str):
        heard.append(message)
        if isinstance(message, backend.NoticeResponse) and ("M", ASLEEP) in message.fields:
            line.cancel()
            break
    return heard


def _pieces(steps: Sequence[Step], cut: Cut, draw: random.Random) -> Iterable[bytes | Cancel]:
    waiting = b""
    for step in steps:
        if isinstance(step, Cancel):
            yield from _cut(waiting, cut, draw)
            waiting = b""
            yield step
        elif cut is Cut.TURNS:
            yield step.encode()
        else:
            waiting += step.encode()
    yield from _cut(waiting, cut, draw)


def _cut(data: bytes, cut: Cut, draw: random.Random) -> Iterable[bytes]:
    place = 0
    while place < len(data):
        size = {Cut.BYTES: 1, Cut.RANDOM: draw.randrange(1, 60)}.get(cut, len(data))
        yield data[place : place + size]
        place += size


def _up_to_rest(heard: Answers) -> Answers:
    while heard and not isinstance(heard[-1], backend.ReadyForQuery):
        heard.pop()
    return heard


def _is_last(heard: Answers) -> bool:
    if not heard or isinstance(heard[-1], str):
        return bool(heard)
    return (
        len(heard) > 2
        and isinstance(heard[-1], backend.ReadyForQuery)
        and isinstance(row := heard[-3], backend.DataRow)
        and row.values == (_LAST.encode(),)
    )


def _comparable(heard: Answers) -> Iterable[Message | str]:
    before: Message | str | None = None
    for message in _settled(heard):
        made = message
        match message:
            case backend.RowDescription(columns):
                made = backend.RowDescription(
                    tuple(replace(column, table_oid=int(column.table_oid > 0)) for column in columns)
                )
            case backend.ErrorResponse(fields) | backend.NoticeResponse(fields):
                # File, line and routine are of PostgreSQL's sources; the context may be that of a function of ours.
                made = type(message)(
                    tuple(each for each in fields if each[0] not in "FLRW" and "pg_temp_" not in each[1])
                )
            case CopyData(data) if isinstance(before, CopyData):
                before = CopyData(before.data + data)  # how data is cut is the server's own choice
                continue
        if before is not None:
            yield before
        before = made
    if before is not None:
        yield before


def _settled(heard: Answers) -> Answers:
    """How many rows come before an error is the server's own choice, and so is the order of news of settings."""
    made: Answers = []
    for message in heard:
        if isinstance(message, backend.ErrorResponse):
            while made and isinstance(made[-1], backend.DataRow):
                made.pop()
        if isinstance(message, backend.ParameterStatus):
            place = len(made)
            while place and isinstance(other := made[place - 1], backend.ParameterStatus) and other.name > message.name:
                place -= 1
            made.insert(place, message)
            continue
        made.append(message)
    return made
