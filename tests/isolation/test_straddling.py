"""Transactions that straddle a schema change: each row of the table of compatibility, and each of the rules.

In PostgreSQL the change would wait for them, so these transcripts are Sluice's own; they stand beside their schedules.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest

from tests.isolation.schedule import answers, read, run
from tests.isolation.straddled import Claim, as_claimed, claims, shown, wanted
from tests.servers import GatewayProcess, Server

_GOLDEN = Path(__file__).parent.parent / "golden"
_SCHEDULES = sorted((_GOLDEN / "straddling").glob("*.txt"))
# Those of tests/golden/changes hold a change in each of its states (tests/changes/test_stages.py).
_CLAIMS = [
    pytest.param(path, claim, id=f"{path.stem}: {claim.kind}")
    for path in (*_SCHEDULES, *sorted((_GOLDEN / "changes").glob("*.txt")))
    for claim in sorted(claims(path))
]


@pytest.mark.turns
@pytest.mark.parametrize("path", _SCHEDULES, ids=lambda path: path.stem)
def test_transcript(gateway_process: GatewayProcess, schema: str, path: Path) -> None:
    with as_claimed(gateway_process, path):
        transcript = run(gateway_process.server, schema, read(path, "READ COMMITTED"), messages=True)
    assert transcript == answers(path)


def test_each_row_of_the_table_is_straddled_and_nothing_that_is_no_row() -> None:
    said = {claim for param in _CLAIMS for claim in param.values if isinstance(claim, Claim)}
    assert said == wanted()


@pytest.mark.parametrize(("path", "claim"), _CLAIMS)
def test_the_transcript_shows_what_it_says(path: Path, claim: Claim) -> None:
    assert shown(path, claim)


# A long time's work, in tasks that look every second whether they are cancelled.
_LONG = "SELECT count(*) FROM t a JOIN t b ON a.n % 20 = b.n % 20 WHERE a.n % 7 <> b.n % 11"


@pytest.mark.parametrize(
    "statement", [_LONG, f"UPDATE other SET n = ({_LONG}) WHERE n = 1", "FETCH c"], ids=["select", "update", "fetch"]
)
def test_a_doomed_transaction_is_ended_at_once(gateway: Server, schema: str, statement: str) -> None:
    """Not at its next query: what it is doing in Spark is in vain."""
    with psycopg.connect(gateway.url, options=f"-c search_path={schema}") as connection:
        connection.execute("CREATE TABLE t (n bigint)")
        connection.execute("CREATE TABLE other (n bigint, gone integer)")
        connection.execute("INSERT INTO t SELECT n FROM generate_series(1, 200000) n")
        connection.execute("INSERT INTO other VALUES (1, 1)")
        connection.commit()
        connection.execute("SELECT * FROM other")
        connection.execute(f"DECLARE c CURSOR FOR {_LONG}".encode())
        change = f"ALTER TABLE {schema}.other DROP COLUMN gone"
        timer = threading.Timer(3.0, lambda: gateway.psql("-qc", change))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(psycopg.errors.SerializationFailure) as raised:
            connection.execute(statement.encode())
        assert time.monotonic() - begun < 30
        timer.join()
        assert raised.value.diag.message_detail == 'Column "gone" was dropped.'
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (200000,)
