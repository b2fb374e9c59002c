"""Offloaded work: it ends when no statement waits for it, and may recurse deeply."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest

from catalog.errors import SluiceError
from gateway.backend import statement_timeout
from gateway.session.offload import offloaded
from gateway.session.session_context import SessionContext

_LARGE = 1_000_000


@pytest.fixture
def session() -> SessionContext:
    return cast(SessionContext, SimpleNamespace(thoughts=set(), deadline=None))


def _endless(ended: threading.Event) -> None:
    try:
        while True:
            time.sleep(0)
    finally:
        ended.set()


def _down(levels: int) -> int:
    return 0 if levels == 0 else 1 + _down(levels - 1)


async def test_small_work_is_done_at_once_and_large_work_aside(session: SessionContext) -> None:
    assert await offloaded(session, 1, threading.current_thread) is threading.current_thread()
    assert (await offloaded(session, _LARGE, threading.current_thread)).name.startswith("thinker")


async def test_a_cancelled_statement_stops_thinking(session: SessionContext) -> None:
    ended = threading.Event()
    thinking = asyncio.create_task(offloaded(session, _LARGE, _endless, ended))
    await asyncio.sleep(0.2)
    for stop in tuple(session.thoughts):
        stop()
        stop()  # as often as somebody asks
    with pytest.raises(SluiceError) as cancelled:
        await thinking
    assert cancelled.value.sqlstate == "57014"
    assert ended.is_set()
    assert gc.isenabled()
    assert not session.thoughts
    assert await offloaded(session, _LARGE, _down, 10) == 10


async def test_a_statement_past_its_deadline_stops_thinking(session: SessionContext) -> None:
    ended = threading.Event()
    session.deadline = asyncio.get_running_loop().time() + 0.2
    with pytest.raises(SluiceError, match="statement timeout") as timed_out:
        await asyncio.wait_for(offloaded(session, _LARGE, _endless, ended), 30)
    assert timed_out.value.sqlstate == "57014"
    assert await asyncio.to_thread(ended.wait, 30)
    assert not session.thoughts


@pytest.mark.parametrize(
    ("setting", "seconds"), [("0", None), ("1500ms", 1.5), ("20s", 20), ("3min", 180), ("2h", 7200), ("1d", 86400)]
)
def test_statement_timeout_is_told_in_units(setting: str, seconds: float | None) -> None:
    assert statement_timeout.seconds(setting) == seconds


async def test_work_that_nobody_waits_for_ends(session: SessionContext) -> None:
    ended = threading.Event()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await offloaded(session, _LARGE, _endless, ended)
    assert await asyncio.to_thread(ended.wait, 10)


async def test_what_is_too_deep_is_told_as_postgresql_does(session: SessionContext) -> None:
    with pytest.raises(SluiceError, match="stack depth limit exceeded") as raised:
        await offloaded(session, _LARGE, _down, 10_000_000)
    assert raised.value.sqlstate == "54001"
    assert "max_stack_depth" in raised.value.fields["H"]
