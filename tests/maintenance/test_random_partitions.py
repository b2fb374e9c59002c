"""Random changes of a table whose keys change too: its rows are those of a table without keys, also for DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest

from tests.maintenance.conftest import connect
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

pytestmark = pytest.mark.soak

_STEPS = 30
_COLUMNS = "id int PRIMARY KEY, k int, d date, t text, z timestamptz, u boolean"
_PARTITION_KEYS = (
    "k", "bucket(4, k)", "month(d)", "k, day(d)", "t", "bucket(3, t), year(d)", "hour(z)", "", "u, bucket(2, d)",
)  # fmt: skip
_SORT_KEYS = ("", "d", "t DESC, k")
# Of a table, the greatest number so far, and a random one.
_CHANGES = (
    "INSERT INTO {0} SELECT id + {1} + 10, k + 1, d + 31, t || 'x', z, NOT u FROM {0} WHERE id % 3 = 0 AND t < 'bx'",
    "INSERT INTO {0} VALUES ({1} + 1, 5, '2024-02-02', 'v', '2024-02-02', true)",
    "UPDATE {0} SET k = k + 1, d = '2023-03-03' WHERE id % 7 = {2} % 7",
    "UPDATE {0} SET t = upper(t) || left(md5(k::text), 1) WHERE id % 11 = {2} % 11 AND length(t) < 5",
    (
        "INSERT INTO {0} SELECT g, 1, '2022-02-02', 'u', NULL, false FROM generate_series({1} - 5, {1} + 5) g"
        " ON CONFLICT (id) DO UPDATE SET k = -1, t = 'w'"
    ),
    "DELETE FROM {0} WHERE id % 13 = {2} % 13",
)
_CONDITIONS = (
    "true", "k = 2", "k IN (1, 3)", "t = 'a'", "d = '2024-01-05'", "z = '2024-01-05 10:30:00+00'",
    "t IN ('b', 'u') AND d < '2024-01-01'",
)  # fmt: skip
_TOTALS = "SELECT count(*), sum(id), sum(k), count(d), count(CASE WHEN u THEN 1 END), sum(length(t)) FROM {0} WHERE {1}"


@pytest.fixture
def witness(kept: GatewayProcess) -> Iterator[Witness]:
    witness = Witness(kept.data_dir)
    yield witness
    witness.close()


_VALUES = (
    [r"\N", "1", "2", "3", "-7"],
    ["2024-01-05", "1969-12-31", "infinity", r"\N", "2025-01-09"],
    ["a", "b", "c", ""],
    ["2024-01-05 10:30+00", "infinity", r"\N"],
    ["t", "f"],
)


def rows(randomly: random.Random, first: int, count: int) -> str:
    """So many rows in COPY's text format."""
    return "".join("\t".join([str(first + number), *map(randomly.choice, _VALUES)]) + "\n" for number in range(count))


def change(randomly: random.Random, connection: psycopg.Connection, server: Server) -> str:
    """Do something at random, with both tables or with the layout of the one; return what."""
    greatest = connection.execute("SELECT coalesce(max(id), 0) FROM plain").fetchone()
    assert greatest is not None
    match randomly.randrange(10):
        case 0:
            did = f"ALTER TABLE divided SET (sluice.partition_by = '{randomly.choice(_PARTITION_KEYS)}')"
            connection.execute(did.encode())
        case 1:
            did = f"ALTER TABLE divided SET (sluice.sort_by = '{randomly.choice(_SORT_KEYS)}')"
            connection.execute(did.encode())
        case 2:
            did = randomly.choice(["VACUUM divided", "VACUUM FULL divided"])
            server.psql("-qc", did)
        case 3 | 4:
            did = rows(randomly, greatest[0] + 1, randomly.choice([10, 3_000]))
            for table in ("divided", "plain"):
                with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copying:
                    copying.write(did)
        case _:
            statement, number = randomly.choice(_CHANGES), randomly.randrange(1_001)
            did = statement.format("divided", greatest[0], number)
            connection.execute(f"SET sluice.hot_rows = {randomly.choice([0, 100])}".encode())
            connection.execute(did.encode())
            connection.execute(statement.format("plain", greatest[0], number).encode())
    return did[:200]


def test_a_table_with_keys_has_the_rows_of_one_without(lake: Server, witness: Witness) -> None:
    seed = random.randrange(10**6)
    print("seed", seed)
    randomly, done = random.Random(seed), list[str]()
    with connect(lake, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE divided ({_COLUMNS}); CREATE TABLE plain ({_COLUMNS})".encode())
        schema = connection.execute("SELECT current_schema()").fetchone()
        assert schema is not None
        for _ in range(_STEPS):
            done.append(change(randomly, connection, lake))
            for condition in _CONDITIONS:
                given, expected = (
                    connection.execute(_TOTALS.format(table, condition).encode()).fetchall()
                    for table in ("divided", "plain")
                )
                assert given == expected, (condition, done)
        for condition in _CONDITIONS:
            told = witness.rows(_TOTALS.format(f"{witness.lake}.{schema[0]}.divided", condition))
            assert told == connection.execute(_TOTALS.format("plain", condition).encode()).fetchall(), (condition, done)
