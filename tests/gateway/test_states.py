"""The protocol's state machine, and its invariants."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import SluiceError
from gateway.wire.messages import backend, frontend, startup
from gateway.wire.messages.copy import CopyData, CopyDone, CopyFail, CopyInResponse, CopyOutResponse
from gateway.wire.messages.layout import Message
from gateway.wire.states import TABLE, Action, Machine, State, mermaid


def at(state: State) -> Machine:
    machine = Machine()
    machine.state = state
    return machine


def test_a_connection_from_start_to_end() -> None:
    machine = Machine()
    machine.received(startup.SSLRequest)
    machine.received(startup.StartupMessage)
    machine.sent(backend.AuthenticationSASL)
    machine.received(frontend.AuthenticationData)
    machine.sent(backend.AuthenticationOk)
    kind: type[Message]
    for kind in (backend.ParameterStatus, backend.BackendKeyData, backend.ReadyForQuery):
        machine.sent(kind)
    started = machine.state
    assert started is State.IDLE
    machine.received(frontend.Query)
    for kind in (backend.RowDescription, backend.DataRow, backend.CommandComplete, backend.ReadyForQuery):
        machine.sent(kind)
    for kind in (frontend.Parse, frontend.Bind, frontend.Describe, frontend.Execute):
        assert machine.received(kind) is Action.PROCESS
    for kind in (backend.ParseComplete, backend.BindComplete, backend.NoData, backend.CommandComplete):
        machine.sent(kind)
    machine.received(frontend.Sync)
    machine.sent(backend.ReadyForQuery)
    machine.received(frontend.Terminate)
    assert machine.state is State.CLOSED


def test_after_an_error_everything_is_skipped_until_sync() -> None:
    machine = at(State.EXTENDED_QUERY)
    machine.sent(backend.ErrorResponse)
    for kind in (frontend.Bind, frontend.Execute, frontend.Flush, frontend.Query, CopyData):
        assert machine.received(kind) is Action.IGNORE
    with pytest.raises(SluiceError):
        machine.sent(backend.BindComplete)
    assert machine.received(frontend.Sync) is Action.PROCESS
    machine.sent(backend.ReadyForQuery)
    assert machine.state is State.IDLE


@pytest.mark.parametrize(
    ("begun", "after"), [(State.SIMPLE_QUERY, State.SIMPLE_QUERY), (State.EXTENDED_QUERY, State.EXTENDED_QUERY)]
)
def test_copy_in(begun: State, after: State) -> None:
    machine = at(begun)
    machine.sent(CopyInResponse)
    assert machine.received(CopyData) is Action.PROCESS
    assert machine.received(frontend.Flush) is Action.IGNORE
    assert machine.received(frontend.Sync) is Action.IGNORE
    with pytest.raises(SluiceError, match="unexpected message type 0x51 during COPY from stdin") as raised:
        machine.received(frontend.Query)
    assert (raised.value.sqlstate, raised.value.severity) == ("08P01", "ERROR")
    machine.received(CopyDone)
    assert machine.state is after


def test_what_a_client_still_sends_when_its_copy_has_failed() -> None:
    machine = at(State.SIMPLE_QUERY)
    machine.sent(CopyInResponse)
    machine.sent(backend.ErrorResponse)
    machine.sent(backend.ReadyForQuery)
    for kind in (CopyData, CopyDone, CopyFail):
        assert machine.received(kind) is Action.IGNORE
    assert machine.state is State.IDLE


def test_copy_out() -> None:
    machine = at(State.EXTENDED_QUERY)
    machine.sent(CopyOutResponse)
    machine.sent(CopyData)
    with pytest.raises(SluiceError, match="DataRow sent in state copy out"):
        machine.sent(backend.DataRow)
    machine.sent(CopyDone)
    assert machine.state is State.EXTENDED_QUERY


def test_only_a_password_is_taken_while_authenticating() -> None:
    machine = at(State.AUTHENTICATING)
    with pytest.raises(SluiceError, match="expected password response, got message type 81") as raised:
        machine.received(frontend.Query)
    assert raised.value.severity == "FATAL"


EVERYTHING: list[type[Message]] = [
    *frontend.FRONTEND.values(), *backend.BACKEND.values(), *backend.AUTHENTICATION.values(), startup.StartupMessage,
    *startup.STARTUP.values(),
]  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(EVERYTHING)), max_size=60))
def test_any_sequence_stays_in_the_table(events: list[tuple[bool, type[Message]]]) -> None:
    machine = Machine()
    for from_client, kind in events:
        before = machine.state
        try:
            if from_client:
                machine.received(kind)
            else:
                machine.sent(kind)
        except SluiceError as error:
            assert error.sqlstate == ("08P01" if from_client else "XX000")  # noqa: PT017
            assert machine.state is before
        assert machine.state in State


def test_ready_for_query_is_the_only_way_to_idle() -> None:
    for state, row in TABLE.items():
        for kind, step in row.received.items():
            assert step.state is not State.IDLE or state is State.IDLE, kind
        for kind, target in row.sent.items():
            assert target is not State.IDLE or state is State.IDLE or kind is backend.ReadyForQuery


def test_the_diagram_shows_every_state_and_every_change() -> None:
    text = mermaid()
    edges = set(re.findall(r"^    (\w+) --> (\w+) :", text, re.MULTILINE))
    expected = set()
    for state, row in TABLE.items():
        targets = {step.state for step in row.received.values()} | set(row.sent.values())
        expected |= {(state.name, target.name) for target in targets - {state}}
    assert edges == expected
    assert text.startswith("stateDiagram-v2\n    [*] --> STARTUP\n")
    assert text.endswith("CLOSED --> [*]")
