"""Random changes of all kinds, in and out of transactions: the gateway and PostgreSQL give the same answers."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.wide_workload import WideWorkload
from tests.changes.workload import drop, run
from tests.servers import Server

_STATEMENTS = 60


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 4))])
def test_same_outcomes(oracle: Server, gateway: Server, seed: int) -> None:
    schema = f"wide_{seed}"
    for server in (oracle, gateway):
        server.psql("-qc", f"CREATE SCHEMA {schema}")
    outcome = run(gateway.url, oracle.url, schema, seed, _STATEMENTS, make=WideWorkload)
    for server in (oracle, gateway):
        with psycopg.connect(server.url, autocommit=True) as connection:
            drop(connection, schema)
    assert not outcome.different, "\n".join([*outcome.story, *outcome.different])
    assert outcome.done.total() > outcome.refused.total() * 5
