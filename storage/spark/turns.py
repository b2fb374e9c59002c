"""Work that pauses: each turn of it has a thread, and a pause has none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator


class Turns:
    """`steps` yields where the work may pause; it goes on from there, in whatever thread, when `go_on` is called.

    A call that comes while it works, or before it began, makes it look once more before it pauses.
    """

    def __init__(
        self,
        steps: Generator[None, None, None],
        submit: Callable[[Callable[[], None]], object],
        ended: Callable[[], None],
    ) -> None:
        """`submit` has a turn carried out; `ended` is called behind the last one."""
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
