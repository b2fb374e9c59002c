"""An unexpected error before the backend has answered: the session ends, and no other statement gets that answer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import GatewayProcess, open_directory

# Python runs this as it starts. What carries out DO fails when the backend has been sent it, before it has answered.
_FAULT = """
from gateway.execution.functions import over_filled_shadows
from gateway.execution.shadow import function_guard
async def relay_rows(session, kept=None):
    raise KeyError("nobody thought of this")
function_guard.relay_rows = over_filled_shadows.relay_rows = relay_rows
"""


@pytest.fixture(scope="module")
def faulty() -> Iterator[GatewayProcess]:
    with open_directory("faulty") as directory:
        (directory / "sitecustomize.py").write_text(_FAULT)
        with GatewayProcess(directory / "data", environment={"PYTHONPATH": str(directory)}) as process:
            yield process


@pytest.mark.parametrize("in_block", [False, True])
def test_the_session_is_ended(faulty: GatewayProcess, in_block: bool) -> None:
    connection = psycopg.connect(faulty.server.url, autocommit=True)
    process_id = connection.info.backend_pid
    if in_block:
        connection.execute("BEGIN")
    with pytest.raises(psycopg.errors.InternalError_, match="nobody thought of this") as raised:
        connection.execute("DO $$ BEGIN END $$")
    assert raised.value.sqlstate == "XX000"
    assert connection.closed
    assert "unexpected error" in faulty.output
    with psycopg.connect(faulty.server.url) as another:
        assert another.execute("SELECT 1").fetchone() == (1,)
        assert another.execute(f"SELECT FROM pg_stat_activity WHERE pid = {process_id}".encode()).fetchall() == []
