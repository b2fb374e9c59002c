"""Random long blocks: hundreds of changes of every kind, with savepoints, in one transaction. Each answer, the rows in
between and what COMMIT leaves are PostgreSQL's.

    SLUICE_BLOCKS=20 SLUICE_BLOCK_STATEMENTS=700 tests/run tests/gateway/test_long_blocks.py
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from tests.servers import Server

pytestmark = pytest.mark.turns

_BLOCKS: Final = int(os.environ.get("SLUICE_BLOCKS", "2"))
_STATEMENTS: Final = int(os.environ.get("SLUICE_BLOCK_STATEMENTS", "120"))
_DAY: Final = datetime.datetime.now(datetime.UTC).toordinal()
_LOOKED_EVERY: Final = 20
_OPTIONS: Final = {
    "default": (),
    "no hot rows": ("SET sluice.hot_rows = 0",),
    "spark": ("SET sluice.engine = 'spark'",),
}
_TABLES: Final = """
CREATE TABLE t (id integer PRIMARY KEY, n integer, v text, UNIQUE (n));
CREATE TABLE c (id integer, t integer REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE, v text);
CREATE TABLE k (a integer, b text);
CREATE TABLE u (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v integer CHECK (v < 1000));
INSERT INTO t SELECT g, g * 10, 'start' FROM generate_series(1, 60) g;
INSERT INTO c SELECT g, g, 'start' FROM generate_series(1, 60, 2) g;
INSERT INTO k SELECT g % 7, 'start' FROM generate_series(1, 40) g;
INSERT INTO u SELECT g, g FROM generate_series(1, 30) g;
"""
_LOOK: Final = """
SELECT 't', id, n, v FROM t UNION ALL SELECT 'c', id, t, v FROM c
UNION ALL SELECT 'k', a, 0, b FROM k UNION ALL SELECT 'u', id, v, '' FROM u ORDER BY 1, 2, 3, 4
"""
_COPY: Final = "COPY k FROM STDIN"
# `{step}` is the statement's number; `{i}` and `{j}` are random numbers up to 120, `{d}` and `{e}` digits up to 6.
_FORMS: Final = (
    "INSERT INTO t VALUES ({i}, {j}0, 's{step}')",
    "INSERT INTO t VALUES (1000 + {step}, -{step}, 's{step}')",
    "INSERT INTO t VALUES (2000 + {step}, -5000 - {step}, 's{step}')",
    (
        "INSERT INTO t VALUES ({i}, {j}0, 's{step}') ON CONFLICT (id) DO UPDATE SET v = excluded.v || t.v"
        " WHERE length(t.v) < 20"
    ),
    "INSERT INTO t VALUES ({i}, {j}0, 's{step}') ON CONFLICT DO NOTHING",
    "UPDATE t SET v = 's{step}' WHERE id = {i}",
    "UPDATE t SET n = n + 1 WHERE id BETWEEN {i} AND {i} + 3 AND n % 10 < 8",
    "UPDATE t SET id = id + 300 WHERE id = {i}",
    "UPDATE t SET v = v || 'x' WHERE n % 13 = {d} AND length(v) < 10",
    "DELETE FROM t WHERE id = {i}",
    "DELETE FROM t WHERE n BETWEEN {j}0 AND {j}0 + 15",
    "INSERT INTO c SELECT {step}, id, 's{step}' FROM t WHERE id = {i}",
    "INSERT INTO c VALUES ({step}, {i}, 's{step}')",
    "UPDATE c SET v = 's{step}' WHERE t = {i}",
    "DELETE FROM c WHERE id % 9 = {d} AND t > {j}",
    "INSERT INTO k VALUES ({d}, 's{step}')",
    "INSERT INTO k VALUES ({d}, 's{step}'), ({e}, 's{step}')",
    "INSERT INTO k SELECT a, 's{step}' FROM k WHERE a = {d} ORDER BY b LIMIT 2",
    "UPDATE k SET b = b || '!' WHERE a = {d} AND length(b) < 9",
    "DELETE FROM k WHERE b = 's{j}'",
    (
        "MERGE INTO t USING (VALUES ({i}, {j})) s (a, b) ON t.id = s.a WHEN MATCHED THEN UPDATE SET v = 's{step}'"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.a, -100000 - {step}, 's{step}')"
    ),
    (
        "MERGE INTO k USING t ON t.id = k.a WHEN MATCHED AND k.b LIKE 's%' THEN DELETE"
        " WHEN NOT MATCHED BY SOURCE AND k.a = {d} THEN UPDATE SET b = 'm{step}'"
    ),
    "UPDATE u SET id = id + 1 WHERE id >= {i} % 30 AND id < 200",
    "INSERT INTO u VALUES (500 + {step}, {i})",
    "UPDATE u SET v = v + {j} WHERE id = {i} % 40",
    (
        "WITH d AS (DELETE FROM k WHERE a = {d} AND b < 's{j}' RETURNING a, b)"
        " INSERT INTO k SELECT a, b || 'w' FROM d WHERE length(b) < 8"
    ),
    _COPY,
    "SELECT count(*), sum(n) FROM t WHERE id > {i}",
    "SELECT count(*) FROM t JOIN c ON t.id = c.t WHERE t.n > {j}",
    "SELECT id FROM t WHERE id = {i} FOR UPDATE",
)
_RARE: Final = ("TRUNCATE k",)

Answer = tuple[object, ...]


def _answer(connection: psycopg.Connection, sql: str, step: int) -> Answer:
    try:
        if sql == _COPY:
            with connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
                copy.write(f"{step % 7}\tcopied{step}\n{(step + 1) % 7}\tcopied{step}\n")
            return (cursor.statusmessage,)
        found = connection.execute(sql.encode())
        rows = sorted(found.fetchall()) if found.description else None
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary
    return found.statusmessage, rows


class _Block:
    """The same block on both servers; what was sent to both, in order."""

    def __init__(self, connections: tuple[psycopg.Connection, psycopg.Connection]) -> None:
        self._connections = connections
        self.sent: list[str] = []

    def both(self, sql: str, step: int = 0) -> None:
        self.sent.append(sql)
        expected, found = (_answer(connection, sql, step) for connection in self._connections)
        assert found == expected, f"after {len(self.sent)} statements: {sql}"

    def guarded(self, sql: str, step: int) -> None:
        """A statement whose error does not end the block."""
        self.both("SAVEPOINT guard")
        self.both(sql, step)
        ended = [each.info.transaction_status for each in self._connections]
        assert ended[0] == ended[1]
        self.both("RELEASE guard" if ended[0] == TransactionStatus.INTRANS else "ROLLBACK TO guard")

    def compare(self) -> None:
        expected, found = (connection.execute(_LOOK).fetchall() for connection in self._connections)
        assert found == expected, f"rows after {len(self.sent)} statements"


def _statement(random: Random, step: int) -> str:
    form = random.choice(_RARE if random.random() < 0.005 else _FORMS)
    numbers = {
        "i": random.randint(1, 120),
        "j": random.randint(1, 120),
        "d": random.randrange(7),
        "e": random.randrange(7),
    }
    return form.format(step=step, **numbers)


def _run(block: _Block, random: Random) -> None:
    savepoints: list[str] = []
    block.both("BEGIN")
    for step in range(1, _STATEMENTS + 1):
        kind = random.random()
        if kind < 0.06:
            savepoints.append(f"s{step}")
            block.both(f"SAVEPOINT s{step}")
        elif kind < 0.12 and savepoints:
            at = random.randrange(len(savepoints))
            back = random.random() < 0.6
            block.both(f"{'ROLLBACK TO' if back else 'RELEASE'} {savepoints[at]}")
            del savepoints[at + back :]
        else:
            block.guarded(_statement(random, step), step)
        if step % _LOOKED_EVERY == 0:
            block.compare()
    block.both("COMMIT" if random.random() < 0.85 else "ROLLBACK")
    block.compare()


@pytest.fixture
def connected(oracle: Server, gateway: Server, schema: str) -> Iterator[Callable[[], _Block]]:
    opened: list[psycopg.Connection] = []

    def connect(*options: str) -> _Block:
        for server in (oracle, gateway):
            connection = psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={schema}")
            opened.append(connection)
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
            connection.execute("DROP TABLE IF EXISTS c, t, k, u")
            connection.execute(_TABLES)
        for option in options:
            opened[1].execute(option.encode())
        return _Block((opened[0], opened[1]))

    yield connect
    opened[0].execute(f"DROP SCHEMA {schema} CASCADE".encode())
    for connection in opened:
        connection.close()


@pytest.mark.parametrize("number", range(_BLOCKS))
def test_a_long_block_is_that_of_postgres(connected: Callable[..., _Block], number: int) -> None:
    seed = _DAY * 1000 + number
    options = list(_OPTIONS.values())[seed % len(_OPTIONS)]
    block = connected(*options)
    try:
        _run(block, Random(seed))
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {options}: {block.sent[-40:]}") from error
