"""Pure work that grows with a statement: off the event loop, on a stack that is deep enough for it.

A small piece of work is done at once, for a thread costs more than it does. A large one is done in one of a few
threads of its own. It is Python, so the loop and it take turns: the interpreter changes over between them as often as
is asked for here. A single call into C must therefore never take long (`planner.tree.tree_text`).

Statements nest as deeply as PostgreSQL's stack lets them, and what is made of them too. What does not even fit into
this stack is 54001, as in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from catalog.errors import too_deep
from gateway.backend.statement_timeout import timed_out
from gateway.node.stack_depth import STACK_BYTES
from gateway.session.cancel_listener import cancelled

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Characters of a statement, or of its tree, that take less than a millisecond or two.
_AT_ONCE: Final = 16_384
_THREADS: Final = 2
_CALLS_MAX: Final = 150_000
# How long the loop waits for its turn while a thread thinks; it has several in each exchange of messages.
_TURN_SECONDS: Final = 0.0002


class _StoppedError(BaseException):
    """Nobody waits for the thought any more. No handler of errors is to take it for one."""


class _Thought:
    """One piece of work in a thread, which can be stopped between two steps of Python."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._stopped = False

    def run(self, work: Callable[[], _T]) -> _T:
        with _COLLECTING:  # around all that may be stopped: its end is not
            with self._lock:
                if self._stopped:
                    raise _StoppedError
                self._thread = threading.get_ident()
            try:
                return work()
            finally:
                with self._lock:
                    self._thread = None

    def stop(self) -> None:
        """Once: the thread may be at somebody else's work before the end of this is known."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(_StoppedError)
                )


class _Collecting:
    """The collector of cyclic garbage stands still while thoughts run: what they make is many objects, all of them in
    use, and each time that it went over them nothing else in the process would move."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            gc.disable()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                gc.enable()


_COLLECTING: Final = _Collecting()


def prepare() -> None:
    """Once in a process, before statements are served. What it has made so far lasts, and is not garbage."""
    sys.setswitchinterval(_TURN_SECONDS)
    sys.setrecursionlimit(_CALLS_MAX)
    gc.collect()
    gc.freeze()


_THINKERS: Final = ThreadPoolExecutor(_THREADS, "thinker")


async def thought(
    session: SessionContext, size: int, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
) -> _T:
    """What `work` gives; `size` is the number of characters that it is about.

    57014 where the session's statement is cancelled meanwhile, or is past its deadline; then, and when the caller is
    cancelled, the work ends.
    """
    call = partial(work, *arguments, **named)
    try:
        if size < _AT_ONCE:
            return call()
        return await _aside(session, call)
    except RecursionError as error:
        raise too_deep() from error


async def _aside(session: SessionContext, call: Callable[[], _T]) -> _T:
    unit = _Thought()
    before = threading.stack_size(STACK_BYTES)
    try:
        # The pool begins a thread with its work, where it has fewer than it may.
        future = asyncio.get_running_loop().run_in_executor(_THINKERS, unit.run, call)
    finally:
        threading.stack_size(before)
    session.thoughts.add(unit.stop)
    try:
        async with asyncio.timeout_at(session.deadline):
            return await asyncio.shield(future)
    except _StoppedError:
        raise cancelled() from None
    except TimeoutError:
        raise timed_out() from None
    finally:
        session.thoughts.discard(unit.stop)
        if not future.done():
            unit.stop()
            future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
