"""The state machine of a connection: one table, from a state and a message to the next state.

The machine is the server's, like PostgreSQL's `SocketBackend` and `PostgresMain`. `received` are the client's messages
in the order of their handling (pipelined ones wait), `sent` are the answers. Messages that are not in the table are
refused: 08P01 for a client's, an internal error for an answer of the gateway.

Sources: PostgreSQL 18 documentation, "Message Flow"; for ignored messages, `postgres.c` and `copyfromparse.c`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages import backend, frontend, startup
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail, CopyInResponse, CopyOutResponse
from gateway.wire.messages.layout import Message, violation


class State(StrEnum):
    """The state of a connection."""

    STARTUP = "startup"
    AUTHENTICATING = "authenticating"
    IDLE = "idle"
    SIMPLE_QUERY = "simple query"
    EXTENDED_QUERY = "extended query"
    SKIP_UNTIL_SYNC = "skip until Sync"
    SYNCING = "syncing"
    SIMPLE_COPY_IN = "copy in, simple"
    EXTENDED_COPY_IN = "copy in, extended"
    SIMPLE_COPY_OUT = "copy out, simple"
    EXTENDED_COPY_OUT = "copy out, extended"
    CLOSED = "closed"


class Action(Enum):
    """What the session does with a received message."""

    PROCESS = "process"
    IGNORE = "ignore"


class Step(NamedTuple):
    """The next state after a received message, and the action."""

    state: State
    action: Action = Action.PROCESS


Kind = type[Message]


@dataclass(frozen=True, slots=True)
class Row:
    """The messages that are allowed in one state."""

    received: Mapping[Kind, Step] = field(default_factory=dict)
    sent: Mapping[Kind, State] = field(default_factory=dict)


def _to(state: State, *kinds: Kind) -> dict[Kind, Step]:
    return {kind: Step(state) for kind in kinds}


def _ignored_in(state: State, kinds: Iterable[Kind]) -> dict[Kind, Step]:
    return {kind: Step(state, Action.IGNORE) for kind in kinds}


def _sent(state: State, *kinds: Kind) -> dict[Kind, State]:
    return dict.fromkeys(kinds, state)


_EXTENDED: Final = (frontend.Parse, frontend.Bind, frontend.Describe, frontend.Execute, frontend.Close)
_SIMPLE: Final = (frontend.Query, frontend.FunctionCall)
_COPY: Final = (CopyData, CopyDone, CopyFail)
_ASYNCHRONOUS: Final = (backend.NoticeResponse, backend.ParameterStatus, backend.NotificationResponse)
_REQUESTS: Final = (
    *(row for row in backend.Authentication.__subclasses__() if row is not backend.AuthenticationOk),
    backend.NegotiateProtocolVersion,
    backend.NoticeResponse,
)
_ROWS: Final = (
    backend.RowDescription,
    backend.DataRow,
    backend.CommandComplete,
    backend.EmptyQueryResponse,
)
_EXTENDED_ANSWERS: Final = (
    backend.ParseComplete,
    backend.BindComplete,
    backend.CloseComplete,
    backend.ParameterDescription,
    backend.NoData,
    backend.PortalSuspended,
)


def _copy_in(here: State, after: State, failed: State) -> Row:
    return Row(
        received={
            **_to(here, CopyData),
            **_to(after, CopyDone, CopyFail),
            **_ignored_in(here, (frontend.Flush, frontend.Sync)),
        },
        sent={**_sent(here, *_ASYNCHRONOUS), **_sent(failed, backend.ErrorResponse)},
    )


def _copy_out(here: State, after: State, failed: State) -> Row:
    return Row(
        sent={
            **_sent(here, CopyData, *_ASYNCHRONOUS),
            **_sent(after, CopyDone),
            **_sent(failed, backend.ErrorResponse),
        },
    )


# A FATAL error closes from any state: `Machine.close`.
TABLE: Final[Mapping[State, Row]] = {
    State.STARTUP: Row(
        received={
            **_to(State.STARTUP, startup.SSLRequest, startup.GSSENCRequest),
            **_to(State.AUTHENTICATING, startup.StartupMessage),
            **_to(State.CLOSED, startup.CancelRequest),
        },
    ),
    State.AUTHENTICATING: Row(
        received=_to(State.AUTHENTICATING, frontend.AuthenticationData),
        sent={
            **_sent(State.AUTHENTICATING, *_REQUESTS),
            **_sent(State.SYNCING, backend.AuthenticationOk),
        },
    ),
    State.IDLE: Row(
        received={
            **_to(State.SIMPLE_QUERY, *_SIMPLE),
            **_to(State.EXTENDED_QUERY, *_EXTENDED, frontend.Flush),
            **_to(State.SYNCING, frontend.Sync),
            # Messages that a client still sends after its COPY has failed.
            **_ignored_in(State.IDLE, _COPY),
            **_to(State.CLOSED, frontend.Terminate),
        },
        sent=_sent(State.IDLE, *_ASYNCHRONOUS),
    ),
    State.SIMPLE_QUERY: Row(
        sent={
            **_sent(State.SIMPLE_QUERY, *_ROWS, *_ASYNCHRONOUS, backend.FunctionCallResponse, backend.ErrorResponse),
            **_sent(State.SIMPLE_COPY_IN, CopyInResponse),
            **_sent(State.SIMPLE_COPY_OUT, CopyOutResponse),
            **_sent(State.IDLE, backend.ReadyForQuery),
        },
    ),
    State.EXTENDED_QUERY: Row(
        received={
            **_to(State.EXTENDED_QUERY, *_EXTENDED, frontend.Flush),
            **_to(State.SIMPLE_QUERY, *_SIMPLE),
            **_to(State.SYNCING, frontend.Sync),
            **_ignored_in(State.EXTENDED_QUERY, _COPY),
            **_to(State.CLOSED, frontend.Terminate),
        },
        sent={
            **_sent(State.EXTENDED_QUERY, *_ROWS, *_EXTENDED_ANSWERS, *_ASYNCHRONOUS),
            **_sent(State.SKIP_UNTIL_SYNC, backend.ErrorResponse),
            **_sent(State.EXTENDED_COPY_IN, CopyInResponse),
            **_sent(State.EXTENDED_COPY_OUT, CopyOutResponse),
        },
    ),
    State.SKIP_UNTIL_SYNC: Row(
        received={
            **_ignored_in(State.SKIP_UNTIL_SYNC, (*_EXTENDED, *_SIMPLE, *_COPY, frontend.Flush)),
            **_to(State.SYNCING, frontend.Sync),
            **_to(State.CLOSED, frontend.Terminate),
        },
        sent=_sent(State.SKIP_UNTIL_SYNC, *_ASYNCHRONOUS),
    ),
    # Between a Sync, or the end of authentication, and ReadyForQuery; a commit that fails does so here.
    State.SYNCING: Row(
        sent={
            **_sent(State.SYNCING, *_ASYNCHRONOUS, backend.BackendKeyData, backend.ErrorResponse),
            **_sent(State.IDLE, backend.ReadyForQuery),
        },
    ),
    State.SIMPLE_COPY_IN: _copy_in(State.SIMPLE_COPY_IN, State.SIMPLE_QUERY, State.SIMPLE_QUERY),
    State.EXTENDED_COPY_IN: _copy_in(State.EXTENDED_COPY_IN, State.EXTENDED_QUERY, State.SKIP_UNTIL_SYNC),
    State.SIMPLE_COPY_OUT: _copy_out(State.SIMPLE_COPY_OUT, State.SIMPLE_QUERY, State.SIMPLE_QUERY),
    State.EXTENDED_COPY_OUT: _copy_out(State.EXTENDED_COPY_OUT, State.EXTENDED_QUERY, State.SKIP_UNTIL_SYNC),
    State.CLOSED: Row(),
}

COPYING_IN: Final = frozenset((State.SIMPLE_COPY_IN, State.EXTENDED_COPY_IN))


def _check() -> None:
    """Check the table: each state has a row and is reachable; each waiting state handles every client message; each
    state leads back to idle or to the end.
    """
    assert set(TABLE) == set(State), "a state has no row"
    edges = {
        state: {step.state for step in row.received.values()} | set(row.sent.values()) for state, row in TABLE.items()
    }
    reached = {State.STARTUP}
    while grown := set().union(*(edges[state] for state in reached)) - reached:
        reached |= grown
    assert reached == set(State), f"unreachable: {set(State) - reached}"
    ordinary = set(frontend.FRONTEND.values()) - {frontend.AuthenticationData}
    for state in (State.IDLE, State.EXTENDED_QUERY, State.SKIP_UNTIL_SYNC):
        assert set(TABLE[state].received) == ordinary, f"{state} does not say what to do with every message"
    for state, row in TABLE.items():
        assert state is State.CLOSED or row.received or row.sent, f"{state} has no way out"
        assert set(row.sent) <= set(backend.BACKEND.values()) | set(backend.Authentication.__subclasses__())


_check()


class Machine:
    """One connection's state."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = State.STARTUP

    def received(self, kind: Kind) -> Action:
        """Handle a client's message. Raises 08P01 (with severity ERROR if the connection can continue)."""
        step = TABLE[self.state].received.get(kind)
        if step is None:
            raise self._refusal(kind)
        self.state = step.state
        return step.action

    def sent(self, kind: Kind) -> None:
        """Record an answer. Raises XX000 if the protocol does not allow it, which is a fault of the gateway."""
        state = TABLE[self.state].sent.get(kind)
        if state is None:
            raise SluiceError(SqlState.INTERNAL_ERROR, f"{kind.__name__} sent in state {self.state}", severity="FATAL")
        self.state = state

    def close(self) -> None:
        """After a FATAL error, or the end of the connection."""
        self.state = State.CLOSED

    def _refusal(self, kind: Kind) -> SluiceError:
        if self.state is State.AUTHENTICATING:
            return violation(f"expected password response, got message type {kind.type}")
        if self.state in COPYING_IN:
            return violation(f"unexpected message type 0x{kind.type:02X} during COPY from stdin", severity="ERROR")
        return violation(f"invalid frontend message type {kind.type}")


def mermaid() -> str:
    """The table as a Mermaid state diagram; messages that change nothing are left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.STARTUP.name}"]
    lines += [f"    {state.name} : {state.value}" for state in State]
    for state, row in TABLE.items():
        labels: dict[State, list[str]] = {}
        for kind, step in row.received.items():
            labels.setdefault(step.state, []).append(f"{kind.__name__}?")
        for kind, target in row.sent.items():
            labels.setdefault(target, []).append(f"{kind.__name__}!")
        lines += [
            f"    {state.name} --> {target.name} : {', '.join(names)}"
            for target, names in labels.items()
            if target is not state
        ]
    lines.append(f"    {State.CLOSED.name} --> [*]")
    return "\n".join(lines)
