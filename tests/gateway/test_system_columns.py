"""System columns of lake tables: the meaning of a ctid over time, and refusals."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server, sqlstate_of


@pytest.fixture(scope="module")
def placed(gateway: Server) -> Iterator[Server]:
    """A table with rows of two commits."""
    gateway.psql("-qc", "CREATE TABLE placed (id integer PRIMARY KEY, t text)")
    gateway.psql("-qc", "INSERT INTO placed VALUES (1, 'a'), (2, 'b')")
    gateway.psql("-qc", "INSERT INTO placed VALUES (3, 'c')")
    yield gateway
    gateway.psql("-qc", "DROP TABLE placed")


def _places(connection: psycopg.Connection[tuple[int, str]]) -> dict[int, str]:
    return dict(connection.execute("SELECT id, ctid FROM placed").fetchall())


def test_a_place_stays_with_its_row_and_comes_to_no_other(placed: Server) -> None:
    with (
        psycopg.connect(placed.url, autocommit=True) as connection,
        psycopg.connect(placed.url, autocommit=True) as other,
    ):
        before = _places(connection)
        assert before == {1: "(0,1)", 2: "(0,2)", 3: "(0,3)"}
        other.execute("UPDATE placed SET t = 'd' WHERE id = 2")
        after = _places(connection)
        assert {number: place for number, place in after.items() if number != 2} == {1: "(0,1)", 3: "(0,3)"}
        assert after[2] not in before.values()
        assert connection.execute("UPDATE placed SET t = 'e' WHERE ctid = %s", (before[2],)).rowcount == 0
        other.execute("VACUUM FULL placed")
        assert not set(_places(connection).values()) & {*before.values(), *after.values()}


def test_own_rows_keep_their_places_beside_those_that_others_commit(placed: Server) -> None:
    with (
        psycopg.connect(placed.url, autocommit=True) as connection,
        psycopg.connect(placed.url, autocommit=True) as other,
        connection.transaction(force_rollback=True),
    ):
        connection.execute("INSERT INTO placed VALUES (10, 'x'), (11, 'y')")
        before = _places(connection)
        other.execute("INSERT INTO placed VALUES (20, 'z')")
        after = _places(connection)
        assert set(after) - set(before) == {20}
        assert {number: after[number] for number in before} == before
        other.execute("DELETE FROM placed WHERE id = 20")


@pytest.mark.parametrize("binary", [False, True])
def test_text_and_binary(placed: Server, binary: bool) -> None:
    with psycopg.connect(placed.url, autocommit=True) as connection:
        cursor = connection.cursor(binary=binary)
        cursor.execute("SELECT '(4294967295,65535)'::tid, ctid = ctid::text::tid FROM (SELECT '(7,9)'::tid AS ctid) t")
        expected = cursor.fetchone()
        cursor.execute("SELECT CASE WHEN id = 0 THEN ctid ELSE '(4294967295,65535)' END, true FROM placed WHERE id = 1")
        assert cursor.fetchone() == expected


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("SELECT xmin, id FROM placed", "xmin"),
        ("UPDATE placed SET t = 'x' WHERE id = 1 AND xmin = '7'", "xmin"),
        ("SELECT cmin FROM placed WHERE cmax IS NULL", "cm"),
        ("INSERT INTO placed VALUES (5, 'e') RETURNING xmin", "xmin"),
        ("INSERT INTO placed VALUES (5, 'e') RETURNING ctid", "ctid"),
        ("INSERT INTO placed SELECT 5, t FROM placed RETURNING ctid", "ctid"),
        ("INSERT INTO placed VALUES (1, 'e') ON CONFLICT (id) DO UPDATE SET t = placed.ctid::text", "ctid"),
        ("INSERT INTO placed VALUES (1, 'e') ON CONFLICT (id) DO UPDATE SET t = 'f' RETURNING old.xmax", "xmax"),
        ("UPDATE placed SET t = 'f' RETURNING ctid", "ctid"),
        ("MERGE INTO placed p USING (VALUES (1)) s (i) ON id = i WHEN MATCHED THEN DELETE RETURNING p.ctid", "ctid"),
        ("WITH made AS (INSERT INTO placed VALUES (5, 'e') RETURNING ctid) SELECT * FROM made", "ctid"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_by_name(placed: Server, statement: str, column: str) -> None:
    sqlstate, message = sqlstate_of(placed, statement)
    assert (sqlstate, f'system column "{column}' in message) == ("0A000", True), message
