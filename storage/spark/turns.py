"""Turns: work that pauses. Each turn has a thread, and a pause has none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator


class Turns:
    """Work in turns. `steps` yields where the work may pause; `go_on` continues it, in any thread.

    A call of `go_on` during a turn, or before the first, makes the work check once more before it pauses.
    """

    def __init__(
        self,
        steps: Generator[None, None, None],
        submit: Callable[[Callable[[], None]], object],
        ended: Callable[[], None],
    ) -> None:
        """`submit` runs a turn; `ended` is called after the last one."""
        self._steps = steps
        self._submit = submit
        self._ended = ended
        self._lock = threading.Lock()
        self._paused = True
        self._called = False

    def go_on(self) -> None:
        """Begin, or end the pause. Any thread may call it; it returns at once."""
        with self._lock:
            self._called = True
            if not self._paused:
                return
            self._paused = False
        self._submit(self._turn)

    def _turn(self) -> None:
        while True:
            with self._lock:
                self._called = False
            try:
                next(self._steps)
            except StopIteration:
                self._ended()
                return
            except BaseException:
                self._ended()
                raise
            with self._lock:
                if not self._called:
                    self._paused = True
                    return
