"""`sluice` with a monitor of its event loop: its longest standstill, and where that was.

The machine that runs tests may be busy with other things, so processor time counts: that of the gateway's own process
from one turn of the loop to the next, but no more than has passed meanwhile. It includes other threads while they hold
the interpreter, and excludes waiting for a processor.

Run as a program, with the arguments of `sluice`. It listens on the port that SLUICE_MONITOR_PORT names, and answers
each connection with the standstills since the one before, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PORT: Final = "SLUICE_MONITOR_PORT"
_TICK_SECONDS: Final = 0.002
# From here on it is worth saying where the loop stands.
_LONG_SECONDS: Final = 0.02
PROGRAM: Final = (sys.executable, str(Path(__file__)))


@dataclass
class Seen:
    """The longest that the loop stood still: `held` seconds by processor time, `passed` by the clock; where the loop's
    thread was; and the processor time that the process has used in all."""

    held: float = 0.0
    passed: float = 0.0
    used: float = 0.0
    where: str = ""


class Monitor:
    """One in a process. `watch` runs on the loop, `_look` and `_answer` in threads of their own."""

    def __init__(self) -> None:
        self._seen = Seen()
        self._begin = time.process_time()
        self._tick = (time.monotonic(), time.process_time())
        self._thread = threading.get_ident()
        self._where = ""

    async def watch(self) -> None:
        """Tick for ever."""
        for target in (self._look, self._answer):
            threading.Thread(target=target, daemon=True).start()
        while True:
            clock, used = self._tick = (time.monotonic(), time.process_time())
            self._where = ""
            await asyncio.sleep(_TICK_SECONDS)
            passed = time.monotonic() - clock - _TICK_SECONDS
            held = min(passed, time.process_time() - used)
            if held > self._seen.held:
                self._seen = Seen(held, passed, 0.0, self._where)

    def _look(self) -> None:
        """Where the loop's thread is, while it stands still."""
        while True:
            time.sleep(_LONG_SECONDS / 2)
            if time.monotonic() - self._tick[0] > _LONG_SECONDS and (frame := sys._current_frames().get(self._thread)):
                stack = traceback.extract_stack(frame)[-8:]
                self._where = " < ".join(f"{Path(at.filename).stem}:{at.lineno} {at.name}" for at in reversed(stack))

    def _answer(self) -> None:
        with socket.create_server(("127.0.0.1", int(os.environ[_PORT]))) as server:
            while True:
                connection, _ = server.accept()
                seen, self._seen = self._seen, Seen()
                begin, self._begin = self._begin, time.process_time()
                seen.used = self._begin - begin
                with connection:
                    connection.sendall(json.dumps(vars(seen)).encode())


class Monitored:
    """A monitor from outside. `port` is where it listens."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.environment = {_PORT: str(port)}

    def ask(self) -> Seen:
        """What was seen since it was asked before."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection,
            connection.makefile() as said,
        ):
            return Seen(**json.loads(said.read()))

    @contextmanager
    def watching(self) -> Iterator[Seen]:
        """What is seen while it lasts, known when it ends."""
        self.ask()
        seen = Seen()
        yield seen
        vars(seen).update(vars(self.ask()))


def main() -> int:
    """Run `sluice`; the monitor begins when the gateway is ready for clients."""
    from gateway.cli import main as cli  # noqa: PLC0415  whoever only asks a monitor needs neither
    from gateway.session import offload  # noqa: PLC0415

    prepare = offload.prepare
    tasks = []

    def prepare_and_watch() -> None:
        prepare()
        tasks.append(asyncio.get_running_loop().create_task(Monitor().watch()))

    offload.prepare = prepare_and_watch
    return cli.main()


if __name__ == "__main__":
    # This file's folder is no place to import from: its modules are named after PostgreSQL's.
    sys.path.pop(0)
    sys.exit(main())
