"""What a pipeline says again and again: the same statement with other parameters, as `executemany` and JDBC's batches
send it.

Bind, maybe Describe, and Execute, of the portal without a name: they are taken out of what has come already, so that
one run can answer them all, and are put back where it cannot. Then half as many are tried, until Sync: so all before
the one that fails are still carried out together.
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
    """The messages behind an Execute that execute the same prepared statement, so many times; `answered`, once they
    need no answer any more."""

    statement: str
    frames: list[Frame] = field(default_factory=list)
    count: int = 0
    answered: bool = False

    def take(self, client: Client, most: int) -> None:
        """Take the executions that are at hand, up to the first message that is part of none, and at most so many."""
        bind = b"\0" + self.statement.encode() + b"\0"
        begun = list[Frame]()
        with suppress(SluiceError):  # of bytes that are no message: whoever takes them next meets the error
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
        """They are to be answered one by one."""
        _put_back(client, self.frames)


def _goes_on(begun: list[Frame], bind: bytes) -> bool:
    """Whether these begin an execution: Bind of the statement, then Describe or not, then Execute without a limit."""
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
    """While a portal is executed, `whole` and without a name or not: it may answer what repeats it, and where Sync is
    next, its commit comes before the answer, so what it meets can still be mended."""
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
