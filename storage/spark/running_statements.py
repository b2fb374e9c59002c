"""The statements of an engine that have not ended, and one thread that ends those that are stopped.

Spark stops future jobs of a cancelled group, but not future map stages, of which adaptive execution makes a job each
(DAGScheduler, handleMapStageSubmitted). So a statement is stopped again and again until it has ended. Spark looks for
no cancel while it analyses a query, which can take minutes: such a statement has its answer, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final

from py4j.protocol import Py4JError

from catalog.errors import SluiceError
from storage.spark.statement import Statement

_LOG: Final = logging.getLogger(__name__)
_STOP_AGAIN_SECONDS: Final = 0.1
_LOOK_AGAIN_SECONDS: Final = 0.02
# A session has one stopped statement that goes on at most, and a role as many as this: the engine has few threads.
_OF_ROLE_MAX: Final = 8


class RunningStatements:
    """The statements. Any thread may call the functions, the loop's the coroutines."""

    def __init__(self) -> None:
        self._running: set[Statement] = set()
        self._stopped: dict[Statement, SluiceError | None] = {}
        self._lock = threading.Lock()
        self._more = threading.Event()
        self._ending = False  # whether the thread runs

    async def begin(self, statement: Statement) -> None:
        """Add a statement, and wait while its session, or its role, may not begin one.

        Raises the statement's failure if it is stopped meanwhile.
        """
        with self._lock:
            self._running.add(statement)
        try:
            while statement.failure is None and self._must_wait(statement):  # noqa: ASYNC110  threads end them
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            statement.check()
        except BaseException:
            self.end(statement)
            raise

    def _must_wait(self, statement: Statement) -> bool:
        with self._lock:
            going_on = [stopped for stopped in self._stopped if stopped is not statement]
        if any(stopped.session == statement.session for stopped in going_on):
            return True
        return sum(stopped.role == statement.role for stopped in going_on) >= _OF_ROLE_MAX

    def end(self, statement: Statement) -> None:
        """Remove a statement that has ended."""
        with self._lock:
            self._running.discard(statement)
            self._stopped.pop(statement, None)

    def all(self) -> list[Statement]:
        """Return the statements that have not ended."""
        with self._lock:
            return list(self._running)

    def tagged(self, tag: str) -> list[Statement]:
        """Return those of a tag."""
        return [statement for statement in self.all() if statement.tag == tag]

    def stop(self, statement: Statement, reason: SluiceError | None = None) -> None:
        """Stop a statement soon, for a reason (57014 if none is given); one that has ended is no error."""
        with self._lock:
            if statement not in self._running:
                return
            self._stopped.setdefault(statement, reason)
            self._more.set()
            if not self._ending:
                self._ending = True
                threading.Thread(target=self._end_stopped, name="spark-cancel", daemon=True).start()

    def _end_stopped(self) -> None:
        while True:
            self._more.clear()
            with self._lock:
                stopped = list(self._stopped.items())
                if not stopped:
                    self._ending = False
                    return
            for statement, reason in stopped:
                try:
                    statement.stop(reason)
                except (Py4JError, OSError):
                    _LOG.debug("a statement was not stopped; its JVM may have died", exc_info=True)
            self._more.wait(_STOP_AGAIN_SECONDS)
