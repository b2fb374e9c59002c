"""Commands of Sluice's in forks of one process, which has imported all that they need.

To start `sluice check`, `sluice attach` or `sluice serve`, if only to be refused, takes half a second of the processor
or more, mostly for imports, and tests do so some hundred times.

Run as a program, it reads requests from standard input, one JSON object a line, and answers each with an exit status.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]


class _Forks:
    """The process that forks. It ends with this one, which holds its standard input."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forks"], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, arguments: Sequence[str], out: Path, error: Path, seconds: float) -> int:
        """The exit status. What takes longer is ended, with all that come after it."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        with self._lock:
            requests.write(json.dumps([list(arguments), str(out), str(error), dict(os.environ)]).encode() + b"\n")
            requests.flush()
            if not select.select([answers], [], [], seconds)[0]:
                self._process.kill()
                raise subprocess.TimeoutExpired(list(arguments), seconds)
            return int(answers.readline())


@cache
def _forks() -> _Forks:
    return _Forks()


def ask_sluice(*arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a command of Sluice's to its end, as `run_sluice` does. Tests of the command itself use that."""
    with tempfile.TemporaryDirectory() as folder:
        out, error = Path(folder) / "out", Path(folder) / "error"
        status = _forks().run(arguments, out, error, seconds)
        return subprocess.CompletedProcess(["sluice", *arguments], status, out.read_text(), error.read_text())


def _become(arguments: Sequence[str], out: str, error: str, environment: Mapping[str, str]) -> None:
    """Be the command, in a fork, with the environment of those that ask. Never returns."""
    os.environ.clear()
    os.environ.update(environment)
    from gateway.cli.main import main  # noqa: PLC0415

    status = 1
    try:
        for number, path in ((1, out), (2, error)):
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        atexit._run_exitfuncs()  # which remove temporary folders
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _serve() -> None:
    from gateway.node.stack_depth import begin_with_deep_stack  # noqa: PLC0415

    begin_with_deep_stack()  # or `sluice serve` would begin itself again
    for name in ("attach", "check", "serve"):
        importlib.import_module(f"gateway.cli.{name}")
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            _become(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
