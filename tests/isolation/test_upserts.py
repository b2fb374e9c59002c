"""Upserts beside plain UPDATEs of the rows that they meet: these claim no keys, and change rows between two looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from tests.servers import Server

_UPSERTS = {
    "of values": "INSERT INTO k VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = k.v + 1 + (pg_sleep(3) IS NULL)::int",
    "that read the table": "INSERT INTO k SELECT id, count(*) OVER () FROM k WHERE id < 3 ON CONFLICT (id) DO UPDATE"
    " SET v = k.v + 1 + (SELECT count(*) FROM k) - 3 + (pg_sleep(2) IS NULL)::int",
}
_CLIENTS = 4


@pytest.fixture
def connect(gateway: Server, schema: str) -> Callable[..., psycopg.Connection]:
    """Connects to the gateway, where a table has three rows."""

    def connected(level: str = "read committed", settings: str = "") -> psycopg.Connection:
        options = f"-c search_path={schema} -c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
        return psycopg.connect(gateway.url, autocommit=True, options=f"{options} {settings}")

    with connected() as connection:
        connection.execute("CREATE TABLE k (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO k VALUES (1, 1), (2, 1), (3, 1)")
        connection.execute("UPDATE k SET v = v WHERE id = 1")  # the first takes longer
    return connected


@pytest.mark.turns
@pytest.mark.parametrize("upsert", _UPSERTS.values(), ids=_UPSERTS)
@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_a_row_changes_while_the_upsert_runs(
    connect: Callable[..., psycopg.Connection], upsert: str, level: str
) -> None:
    errors: list[psycopg.Error] = []

    def run() -> None:
        try:
            one.execute(upsert.encode())
        except psycopg.Error as error:
            errors.append(error)

    with connect(level) as one, connect() as other:
        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(1)
        other.execute("UPDATE k SET v = 100 WHERE id = 1")
        thread.join()
        [(v,)] = other.execute("SELECT v FROM k WHERE id = 1").fetchall()
    if level == "read committed":
        assert (errors, v) == ([], 101)
    else:
        assert ([error.sqlstate for error in errors], v) == (["40001"], 100)


@pytest.mark.soak
@pytest.mark.parametrize("settings", ["", "-c sluice.engine=spark -c sluice.hot_rows=0"])
def test_many_at_once(connect: Callable[..., psycopg.Connection], settings: str) -> None:
    counts, errors, end = [0] * _CLIENTS, list[psycopg.Error](), time.monotonic() + 20
    upsert = "INSERT INTO k VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET v = k.v + 1"
    statements = [upsert, upsert, "UPDATE k SET v = v + 1 WHERE id = 1", "UPDATE k SET v = v + 1 WHERE id < 2"]

    def run(number: int) -> None:
        with connect(settings=settings) as connection:
            while time.monotonic() < end:
                try:
                    connection.execute(statements[number].encode())
                    counts[number] += 1
                except psycopg.Error as error:
                    errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connect() as connection:
        [(v,)] = connection.execute("SELECT v FROM k WHERE id = 1").fetchall()
    assert (errors, v) == ([], 1 + sum(counts))
