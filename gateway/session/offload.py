"""Runs pure work that grows with a statement in threads with deep stacks, off the event loop.

Small work runs at once, because a thread costs more. Large work runs in one of a few threads. It is Python code, so it
takes turns with the event loop, at the interval that is set here. Therefore no single call into C may take long
(`planner.tree.tree_text`).

Statements nest as deeply as PostgreSQL's stack permits, and so does their translation. Work that exceeds this stack
raises 54001, as in PostgreSQL.
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

# Characters of a statement, or of its tree, whose work takes at most two milliseconds.
_AT_ONCE: Final = 16_384
_THREADS: Final = 2
_CALLS_MAX: Final = 150_000
# Seconds that the event loop waits for its turn while a thread works; each exchange of messages needs several turns.
_TURN_SECONDS: Final = 0.0002
# New objects after which the youngest are collected; such collections after which older ones are; and those after which
# all are: after some 700,000 objects that have stayed.
_YOUNG: Final = 700
_MIDDLE: Final = 10
_OLD: Final = 100
_NEVER: Final = 1_000_000


class _StoppedError(BaseException):
    """The result is not needed any more. Not an Exception, so that no error handler catches it."""


class _Thought:
    """One piece of work in a thread, which can be stopped between two Python instructions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._stopped = False

    def run(self, work: Callable[[], _T]) -> _T:
        with _COLLECTING:  # around all that may be stopped, but not around its own end
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
        """Stop the work, once: the thread may begin other work before this one's end is known."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(_StoppedError)
                )


class _Collecting:
    """Suspends the garbage collector's full collections while work runs. Work creates many live objects, and each full
    collection looks at all of them, while the process stands still. Young objects are collected as they come: if they
    were left until the work ends, as many would be looked at then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            gc.set_threshold(_YOUNG, _MIDDLE, _NEVER)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


_COLLECTING: Final = _Collecting()


def prepare() -> None:
    """Configure a process once, before it serves statements. Objects that exist by then last, so the collector ignores
    them.
    """
    sys.setswitchinterval(_TURN_SECONDS)
    sys.setrecursionlimit(_CALLS_MAX)
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    gc.collect()
    gc.freeze()


_THINKERS: Final = ThreadPoolExecutor(_THREADS, "thinker")


async def offloaded(
    session: SessionContext, size: int, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
) -> _T:
    """The result of `work`; `size` is the number of characters that it reads.

    Raises 57014 if the session's statement is cancelled or exceeds its deadline; then, or if the caller is cancelled,
    the work is stopped.
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
        # The pool starts a new thread for the work, while it may have more.
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
