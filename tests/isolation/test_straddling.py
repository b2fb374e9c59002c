"""Transactions that straddle a change of schema: each row of the table of compatibility, and each of the rules.

PostgreSQL would let the change wait for them, so these transcripts are Sluice's own; they stand beside their schedules.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest

from catalog.compatibility import COMPATIBILITY
from catalog.states import STEPS
from tests.isolation.schedule import answers, read, run
from tests.servers import Server

_SCHEDULES = sorted((Path(__file__).parent.parent / "golden" / "straddling").glob("*.txt"))
# A type that its files hold already is widened; any other is another column.
_NOT_MADE = {"change type"}


@pytest.mark.parametrize("path", _SCHEDULES, ids=lambda path: path.stem)
def test_transcript(gateway: Server, schema: str, path: Path) -> None:
    transcript = run(gateway, schema, read(path, "READ COMMITTED"), messages=True)
    assert transcript == answers(path)


def test_every_kind_of_change_that_can_be_made_is_straddled() -> None:
    # tests/golden/changes holds a change in each of its states.
    in_states = {step.kind for step in STEPS} - {"drop constraint"}
    makeable = {rule.kind for rule in COMPATIBILITY} - in_states - _NOT_MADE
    assert makeable <= {path.stem.replace("-", " ") for path in _SCHEDULES}


# Minutes of work.
_LONG = "SELECT count(*) FROM t a, t b WHERE a.n % 7 <> b.n % 11"


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
