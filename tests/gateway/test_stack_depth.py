"""Compiled code that recurses deeply on the main thread has a stack for it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from functools import partial

import pytest

_USUAL_BYTES = 8 * 2**20
# sqlglot's parser is compiled, and looks at no limit of recursion.
_DEEP = "import sqlglot; sqlglot.parse_one('SELECT ' + 'NOT ' * 8000 + 'true', dialect='postgres'); print('parsed')"
_BEGIN = "from gateway.node.stack_depth import begin_with_deep_stack; begin_with_deep_stack(); "
_LIMIT = "import resource; print(resource.getrlimit(resource.RLIMIT_STACK)[0])"


def _run(code: str, hard: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    limit = partial(resource.setrlimit, resource.RLIMIT_STACK, (_USUAL_BYTES, hard))
    return subprocess.run(
        [sys.executable, "-c", "import sys; sys.setrecursionlimit(150_000); " + code],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(autouse=True)
def _unlimited() -> None:
    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the stack of this machine's processes has a limit")


def test_the_stack_is_deep_enough() -> None:
    assert _run(_DEEP).returncode == -signal.SIGSEGV  # or else this test shows nothing
    begun = _run(_BEGIN + _DEEP)
    assert (begun.returncode, begun.stdout, begun.stderr) == (0, "parsed\n", "")


def test_where_there_is_no_more_the_process_goes_on() -> None:
    assert _run(_BEGIN + _LIMIT, hard=_USUAL_BYTES).stdout == f"{_USUAL_BYTES}\n"
    assert _run(_BEGIN + _LIMIT, hard=4 * _USUAL_BYTES).stdout == f"{4 * _USUAL_BYTES}\n"
