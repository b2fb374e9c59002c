"""Sessions whose transactions overlap get PostgreSQL's answers to the same transactions in a serial order."""

from __future__ import annotations

import pytest

from tests.changes.concurrent_workload import run
from tests.servers import Server

_STATEMENTS = 100


@pytest.mark.parametrize("seed", [11, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (13, 16))])
def test_as_if_one_after_another(oracle: Server, gateway: Server, seed: int) -> None:
    schema = f"concurrent_{seed}"
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE SCHEMA {schema}")
    outcome = run(gateway.url, oracle.url, schema, seed, _STATEMENTS)
    for server in (oracle, gateway):
        server.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    assert not outcome.different, "\n".join([*outcome.story, *outcome.different])
    told = outcome.done
    assert told["COMMIT"] >= 1
    assert told.total() > outcome.refused.total() * 5
