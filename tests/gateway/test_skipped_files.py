"""Files whose statistics exclude the predicate are not read: their content does not matter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers import GatewayProcess

# More rows to a file than are read without Spark.
_ROWS = 5_000
_FILES = 4
_SELECT = "SELECT count(*), sum(id), min(day), max(word), sum(amount) FROM t"


@pytest.fixture(scope="module")
def connection(gateway_process: GatewayProcess) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA skipped_files")
        connection.execute("SET search_path = skipped_files")
        connection.execute(
            "CREATE TABLE t (id bigint, day date, word text, amount numeric(10, 2), at timestamptz, f double precision)"
        )
        for number in range(_FILES):
            connection.execute(
                "INSERT INTO t SELECT n, date '2020-01-01' + n / 50, 'word ' || lpad(n::text, 8, '0'), n / 100.0,"
                " timestamptz '2020-01-01 00:00+00' + n * interval '1 hour', n / 8.0"
                f" FROM generate_series({number * _ROWS}, {(number + 1) * _ROWS - 1}) n"
            )
        yield connection
        connection.execute("DROP TABLE skipped_files.t")
        connection.execute("DROP SCHEMA skipped_files")


@pytest.fixture
def one_file_left(connection: psycopg.Connection, gateway_process: GatewayProcess) -> Iterator[psycopg.Connection]:
    """Of the files with rows none can be read but the second; they are put back afterwards."""
    found = (gateway_process.data_dir / "lake" / "skipped_files").rglob("*.parquet")
    files = sorted(found, key=lambda path: path.name)
    contents: dict[Path, bytes] = {path: path.read_bytes() for path in files}
    assert len(files) == _FILES
    for place, path in enumerate(files):
        if place != 1:
            path.write_bytes(b"PAR1 nothing that anybody could read PAR1")
    yield connection
    for path, content in contents.items():
        path.write_bytes(content)


def _scan(connection: psycopg.Connection, sql: str) -> dict[str, Any]:
    row = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode()).fetchone()
    assert row is not None
    (plan,) = row[0] if isinstance(row[0], list) else json.loads(row[0])
    while "Files Scanned" not in plan:
        plan = plan["Plan"] if "Plan" in plan else plan["Plans"][0]
    found: dict[str, Any] = plan
    return found


# Each is of rows in the second file alone.
CONDITIONS = (
    "id = 6000", "id BETWEEN 5000 AND 9999", "id > 5999 AND id < 6002", "id IN (5000, 7500)",
    "day >= '2020-04-20' AND day < '2020-06-01'", "day = date '2020-05-01'", "word = 'word 00006000'",
    "word >= 'word 00005000' AND word <= 'word 00009999'", "amount = 60.00", "amount > 50 AND amount < 99.99",
    "at >= '2020-07-28 09:00+00' AND at < '2020-08-01 00:00+00'", "id = 6000 AND word IS NOT NULL",
    "6000 = id", "id = 6000 AND amount * 2 > 100",
)  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_explain_counts_them(connection: psycopg.Connection, condition: str) -> None:
    scan = _scan(connection, f"SELECT * FROM t WHERE {condition}")
    assert (scan["Files Scanned"], scan["Files Skipped"]) == (1, _FILES - 1)


def test_explain_in_words(connection: psycopg.Connection) -> None:
    said = "\n".join(row[0] for row in connection.execute("EXPLAIN SELECT sum(id) FROM t WHERE id < 10"))
    assert "Spark Select" in said
    assert "Files: 1 scanned, 3 skipped" in said
    assert "Spark Plan" in said
    assert "HashAggregate" in said, "not Spark's plan"
    said = "\n".join(row[0] for row in connection.execute("EXPLAIN SELECT * FROM t WHERE id < 0"))
    assert "Files: 0 scanned, 4 skipped" in said


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_query_opens_none_of_them(one_file_left: psycopg.Connection, condition: str) -> None:
    (row,) = one_file_left.execute(f"{_SELECT} WHERE {condition}".encode()).fetchall()
    assert row[0] > 0
    assert row[1] / row[0] == pytest.approx(7500, abs=2500)


def test_changes_open_none_of_them(one_file_left: psycopg.Connection) -> None:
    """In a block that is undone: what it has written, the next test does not find."""
    execute = one_file_left.execute
    with one_file_left.transaction(force_rollback=True):
        for sql in ("UPDATE t SET amount = amount WHERE amount <> 1", _SELECT):
            with pytest.raises(psycopg.Error) as raised, one_file_left.transaction():
                execute(sql)
            assert raised.value.sqlstate in {"XX001", "58030"}
        assert execute("UPDATE t SET amount = -1 WHERE id = 6000").rowcount == 1
        assert execute("DELETE FROM t WHERE id = 7001 AND f > 0").rowcount == 1
        assert execute("INSERT INTO t SELECT * FROM t WHERE id = 7002").rowcount == 1
        assert execute("DELETE FROM t USING (VALUES (7002)) v (x) WHERE id = x AND id = 7002").rowcount == 2
        assert execute("SELECT count(*) FROM t WHERE id BETWEEN 7000 AND 7003").fetchone() == (2,)
        assert execute("SELECT id FROM t WHERE amount < 0 AND id < 9999 AND id > 4999").fetchall() == [(6000,)]
