"""The limit of open files is enough for the allowed connections."""

from __future__ import annotations

import subprocess
import sys

import pytest

from catalog.errors import SqlState
from gateway.cli.main import _parser

_ALLOW = """
import resource, sys
from catalog.errors import SluiceError
from gateway.server.open_files import allow_open_files

soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    allow_open_files(connections)
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
except SluiceError as error:
    print(error.sqlstate)
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "said"),
    [
        (256, 4096, 100, "1324 4096"),
        (2048, 4096, 100, "2048 4096"),
        (256, 1024, 100, SqlState.INSUFFICIENT_RESOURCES),
        (256, 4096, 1024, "4096 4096"),
        (256, 4096, 1025, SqlState.INSUFFICIENT_RESOURCES),
    ],
)
def test_the_limit_is_raised_as_far_as_it_has_to_be(soft: int, hard: int, connections: int, said: str) -> None:
    command = [sys.executable, "-c", _ALLOW, str(soft), str(hard), str(connections)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == said


@pytest.mark.parametrize("seconds", ["0", "-1", "601", "nan", "soon"])
def test_a_time_to_log_in_that_is_none(seconds: str) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(["serve", "--authentication-timeout", seconds])
