"""READ ONLY blocks, as drivers begin them; `golden/sessions/read-only.sql` has those of psql."""

from __future__ import annotations

import time
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest
from psycopg.pq import TransactionStatus

from tests.servers import Server

# What PostgreSQL computes over copied rows.
_COMPUTED = "SELECT count(t), current_setting('transaction_read_only') FROM read_only_town t"


@pytest.fixture(scope="module")
def towns(gateway: Server) -> Iterator[Server]:
    gateway.psql("-qc", "CREATE TABLE read_only_town (id integer PRIMARY KEY, name text)")
    gateway.psql("-qc", "INSERT INTO read_only_town VALUES (1, 'Bern'), (2, 'Chur')")
    yield gateway
    gateway.psql("-qc", "DROP TABLE read_only_town")


def test_psycopg(towns: Server) -> None:
    with psycopg.connect(towns.url) as connection:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for _ in range(2):
            assert connection.execute(_COMPUTED).fetchall() == [(2, "on")]
            with (
                pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match="cannot execute INSERT"),
                connection.transaction(),
            ):
                connection.execute("INSERT INTO read_only_town VALUES (3, 'Olten')")
            assert connection.execute(_COMPUTED).fetchall() == [(2, "on")]
            with connection.cursor("named") as cursor:
                cursor.execute("SELECT to_json(t) FROM read_only_town t ORDER BY id")
                assert [row["name"] for (row,) in cursor.fetchmany(1)] == ["Bern"]
                with connection.transaction():
                    assert connection.execute(_COMPUTED).fetchall() == [(2, "on")]
                assert [row["name"] for (row,) in cursor.fetchall()] == ["Chur"]
            connection.commit()
        connection.read_only = False
        assert connection.execute(_COMPUTED).fetchall() == [(2, "off")]


async def _computed(connection: asyncpg.Connection) -> tuple[object, ...]:
    row = await connection.fetchrow(_COMPUTED)
    assert row is not None
    return tuple(row)


async def test_asyncpg(towns: Server) -> None:
    connection = await asyncpg.connect(towns.url)
    try:
        for _ in range(2):
            async with connection.transaction(readonly=True):
                assert await _computed(connection) == (2, "on")
                with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="cannot execute DELETE"):
                    async with connection.transaction():
                        await connection.execute("DELETE FROM read_only_town")
                assert await _computed(connection) == (2, "on")
                sql = "SELECT to_json(t) FROM read_only_town t WHERE id > $1 ORDER BY id"
                first = [row async for row in connection.cursor(sql, 0, prefetch=1)]
                assert len(first) == 2
        assert await _computed(connection) == (2, "off")
    finally:
        await connection.close()


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN READ ONLY"])
def test_a_pipeline_that_goes_back_to_a_savepoint(towns: Server, begin: str) -> None:
    """What follows in it is carried out in a block that works again: of the lake, and READ ONLY as before."""
    shown = "off" if begin == "BEGIN" else "on"
    with psycopg.connect(towns.url, autocommit=True) as connection:
        connection.execute(begin.encode())
        connection.execute("SAVEPOINT one")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with connection.pipeline():
            connection.execute("ROLLBACK TO one")
            counted = connection.execute("SELECT count(*) FROM read_only_town")
            computed = connection.execute(_COMPUTED)
        assert (counted.fetchall(), computed.fetchall()) == ([(2,)], [(2, shown)])
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with connection.pipeline():
            connection.execute("ROLLBACK")
            counted = connection.execute("SELECT count(*) FROM read_only_town")
        assert counted.fetchall() == [(2,)]
        assert connection.info.transaction_status == TransactionStatus.IDLE


def test_a_pipeline_of_the_whole_block(towns: Server) -> None:
    with psycopg.connect(towns.url, autocommit=True) as connection:
        with connection.pipeline():
            connection.execute("BEGIN READ ONLY")
            first = connection.execute(_COMPUTED)
            connection.execute("SAVEPOINT one")
            second = connection.execute(_COMPUTED)
            connection.execute("RELEASE one")
            third = connection.execute(_COMPUTED)
            connection.execute("COMMIT")
            last = connection.execute(_COMPUTED)
        answers = [cursor.fetchone() for cursor in (first, second, third, last)]
        assert answers == [(2, "on"), (2, "on"), (2, "on"), (2, "off")]


def test_what_became_read_only_past_the_gateway_stays_refused(towns: Server) -> None:
    with psycopg.connect(towns.url, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT set_config('transaction_read_only', 'on', true)")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(_COMPUTED)


def test_a_cancelled_one_leaves_the_block_as_it_was(towns: Server) -> None:
    with psycopg.connect(towns.url, autocommit=True) as connection:
        connection.execute("BEGIN READ ONLY")
        connection.execute("SAVEPOINT one")
        connection.execute("SET LOCAL statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT t, pg_sleep(60) FROM read_only_town t")
        connection.execute("ROLLBACK TO one")
        begun = time.monotonic()
        assert connection.execute(_COMPUTED).fetchall() == [(2, "on")]
        assert time.monotonic() - begun < 30
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE read_only_more (n integer)")
