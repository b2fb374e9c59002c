"""Executes repeated Binds and Executes of one statement in a pipeline together, as `executemany` and JDBC batches send
them.

The messages are Bind, optionally Describe, and Execute, of the unnamed portal. They are taken from the received bytes,
executed together, and put back if that fails. Then half as many are tried, until Sync; so all before the failing one
still run together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.wire.framing import Frame
from gateway.wire.messages import frontend

if TYPE_CHECKING:
    from gateway.client.connection import Client
    from gateway.session.session_context import SessionContext

REPETITIONS_MAX: Final = 5000
_DESCRIBE_PORTAL: Final = b"P\0"
_EXECUTE_WHOLE: Final = b"\0" + bytes(4)


@dataclass(slots=True)
class Repetitions:
    """The messages of further executions of the same prepared statement; `answered` once they need no answer
    any more.
    """

    statement: str
    frames: list[Frame] = field(default_factory=list)
    count: int = 0
    answered: bool = False

    def take(self, client: Client, most: int) -> None:
        """Take received executions, at most `most`, up to the first other message."""
        bind = b"\0" + self.statement.encode() + b"\0"
        begun = list[Frame]()
        with suppress(SluiceError):  # for malformed messages: the next reader reports the error
            while self.count < most and (frame := client.at_hand()) is not None:
                begun.append(frame)
                if not _goes_on(begun, bind):
                    break
                if frame.type == frontend.Execute.type:
                    self.frames += begun
                    self.count += 1
                    begun.clear()
        _put_back(client, begun)

    def put_back(self, client: Client) -> None:
        """Put the messages back; each will be answered separately."""
        _put_back(client, self.frames)


def _goes_on(begun: list[Frame], bind: bytes) -> bool:
    """Whether these messages begin an execution: Bind of the statement, optional Describe, Execute without a limit."""
    frame = begun[-1]
    if frame.is_large:
        return False
    body = frame.body
    if len(begun) == 1:
        return frame.type == frontend.Bind.type and body.startswith(bind)
    if frame.type == frontend.Describe.type:
        return len(begun) == 2 and body == _DESCRIBE_PORTAL
    return frame.type == frontend.Execute.type and body == _EXECUTE_WHOLE


def _put_back(client: Client, frames: list[Frame]) -> None:
    for frame in reversed(frames):
        client.hold(frame)


@contextmanager
def ending_with(session: SessionContext, repetitions: Repetitions | None, *, whole: bool) -> Iterator[None]:
    """While a portal runs completely: which repetitions it may answer. If Sync follows, COMMIT comes before the
    answer, so that an error of COMMIT can still be corrected.
    """
    client = session.client
    if repetitions is not None and whole and not (session.encoding.converts or session.cursors.any_open):
        repetitions.take(client, session.repetitions_max)
    session.ends_with_statement = client.next_type == frontend.Sync.type
    try:
        yield
    finally:
        session.ends_with_statement = False
        if repetitions is not None and repetitions.count and not repetitions.answered:
            session.repetitions_max = repetitions.count // 2
            repetitions.put_back(client)
