"""Functions that alter tables beside their rows: other sessions, and large tables. The rest is in golden/sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.servers import Server, sqlstate_of

_ALTERS = """
DO $$ BEGIN
    ALTER TABLE altered.item ADD COLUMN IF NOT EXISTS twice int;
    PERFORM pg_sleep(0.5);
    UPDATE altered.item SET twice = 2 * id;
END $$
"""
_ROWS = 20


@pytest.fixture
def made(gateway: Server) -> Iterator[Server]:
    gateway.query("CREATE SCHEMA altered; CREATE TABLE altered.item (id int PRIMARY KEY);")
    gateway.query("INSERT INTO altered.item SELECT -i FROM generate_series(1, 5) i")
    yield gateway
    gateway.query("DROP SCHEMA altered CASCADE")


def test_no_row_of_others_is_lost(made: Server) -> None:
    def insert() -> None:
        with psycopg.connect(made.url, autocommit=True) as other:
            for number in range(_ROWS):
                other.execute("INSERT INTO altered.item (id) VALUES (%s)", [number])
                time.sleep(0.05)

    with ThreadPoolExecutor() as threads:
        inserting = threads.submit(insert)
        time.sleep(0.2)
        made.query(_ALTERS)
        inserting.result()
    counts = "SELECT count(*), count(*) FILTER (WHERE id < 0 AND twice = 2 * id) FROM altered.item"
    assert made.query(counts) == [[str(_ROWS + 5), "5"]]


def test_rows_that_a_snapshot_lacks_are_not_lost_either(made: Server) -> None:
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1 FROM altered.item")
        made.query("INSERT INTO altered.item VALUES (77)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            connection.execute(_ALTERS)
        connection.execute("ROLLBACK")
    assert made.query("SELECT count(*) FROM altered.item") == [["6"]]


def test_large_tables_are_refused(made: Server) -> None:
    made.query("INSERT INTO altered.item SELECT i FROM generate_series(1000, 202000) i")
    sqlstate, message = sqlstate_of(made, _ALTERS)
    assert (sqlstate, "so large a lake table" in message) == ("0A000", True)
    alters = "DO $$ BEGIN ALTER TABLE altered.item ALTER COLUMN id TYPE bigint; END $$"
    assert sqlstate_of(made, alters)[0] == "0A000"
    assert made.query("SELECT count(*), pg_typeof(min(id)) FROM altered.item") == [["201006", "integer"]]
