"""Large files of which Spark reads the row groups that matter: the same rows as from PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server

pytestmark = pytest.mark.turns

# Several row groups of 32,768 rows.
_ROWS = 110_000
_CONDITIONS = (
    "id = 70000",
    "day = date '1582-10-10'",
    "day >= date '1582-10-10' AND day < date '1582-10-12'",
    "day = 'infinity' OR day = '-infinity'",
    "at > timestamptz '2020-01-01 23:00:00+00'",
    "at = 'infinity'",
    "f > 1e6",
    "f = 'NaN'",
    "amount BETWEEN 500.25 AND 500.75",
    "a = 3",
    '"A" = 3',
    "word LIKE 'w0500%'",
    "word < 'w00005'",
    "word = 'W00005'",
    "added = 7 AND id < 5",
    "flag IS NULL",
    "NOT flag AND id > 109990",
    "stamp < timestamp '1500-01-01'",
    "extract(month FROM length) = 5",
)


def test_the_same_rows_as_from_postgresql(oracle: Server, gateway: Server, schema: str) -> None:
    with (
        psycopg.connect(oracle.url, autocommit=True) as plain,
        psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection,
    ):
        fill(plain, "TEMPORARY")
        fill(connection, "")
        connection.execute("SET sluice.engine = 'spark'")
        expected = answers(plain)
        assert len(set(expected.values())) > len(_CONDITIONS) // 2
        assert answers(connection) == expected
        for each in (plain, connection):
            for before, after in (("a", "b"), ('"A"', "a"), ("b", '"A"')):
                each.execute(f"ALTER TABLE t RENAME COLUMN {before} TO {after}".encode())
            each.execute("INSERT INTO t SELECT * FROM t WHERE id < 40000")
        assert answers(connection) == answers(plain)


def fill(connection: psycopg.Connection, kind: str) -> None:
    columns = (
        'id int, day date, at timestamptz, f float8, amount numeric(10, 2), a int, "A" int, word text, flag boolean,'
        " stamp timestamp, length interval"
    )
    connection.execute(f"CREATE {kind} TABLE t ({columns})".encode())
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        for n in range(_ROWS):
            day = {0: "-infinity", _ROWS - 1: "infinity"}.get(n, f"1582-10-{n * 20 // _ROWS + 1:02}")
            at = "infinity" if n == _ROWS - 1 else f"2020-01-01 {n * 24 // _ROWS:02}:00:00+00"
            f = "NaN" if n == 50_000 else n / 8
            flag = "\\N" if n == 3 else "t" if n % 2 else "f"
            values = n, day, at, f, n / 100, n // 30_000, 3 - n // 30_000, f"w{n:06}", flag, day, f"{n} months"
            copy.write("\t".join(map(str, values)) + "\n")
    connection.execute("ALTER TABLE t ADD COLUMN added int DEFAULT 7")
    connection.execute("DELETE FROM t WHERE id % 1000 = 500")


def answers(connection: psycopg.Connection) -> dict[str, tuple[int, int | None]]:
    found = {}
    for condition in _CONDITIONS:
        row = connection.execute(f"SELECT count(*), sum(id) FROM t WHERE {condition}".encode()).fetchone()
        assert row is not None
        found[condition] = (row[0], row[1])
    return found
