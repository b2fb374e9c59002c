"""Connections to `postgres` and `template1`, which tools use to create and drop databases."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server


def _connected(gateway: Server, database: str) -> psycopg.Connection:
    return psycopg.connect(gateway.url, dbname=database, autocommit=True)


@pytest.mark.parametrize("database", ["postgres", "template1"])
def test_it_is_that_database(gateway: Server, database: str) -> None:
    with _connected(gateway, database) as connection:
        assert connection.execute("SELECT current_database(), current_user").fetchone() == (database, "sluice")
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (gateway.database,)).fetchall()
        assert found == [(1,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE lasting (n integer)")


def test_databases_are_not_made_nor_dropped(gateway: Server) -> None:
    with _connected(gateway, "postgres") as connection:
        for prepare in (False, True):
            with pytest.raises(psycopg.errors.FeatureNotSupported) as made:
                connection.execute("CREATE DATABASE test_x", prepare=prepare)
            assert "A lake is one database" in (made.value.diag.message_hint or "")
            with pytest.raises(psycopg.errors.DuplicateDatabase):
                connection.execute(f"CREATE DATABASE {gateway.database}".encode(), prepare=prepare)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(f"DROP DATABASE IF EXISTS {gateway.database} WITH (FORCE)".encode(), prepare=prepare)
            connection.execute("DROP DATABASE IF EXISTS test_x", prepare=prepare)
            with pytest.raises(psycopg.errors.InvalidCatalogName):
                connection.execute("DROP DATABASE test_x", prepare=prepare)
        assert connection.execute("SELECT 7").fetchone() == (7,)


def test_a_pipeline_stays_in_step(gateway: Server) -> None:
    with _connected(gateway, "postgres") as connection, connection.pipeline() as pipeline:
        first = connection.execute("SELECT 1")
        connection.execute("CREATE DATABASE test_x")
        connection.execute("SELECT 1 / 0")  # skipped
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            pipeline.sync()
        assert first.fetchone() == (1,)
        last = connection.execute("SELECT 2")
        pipeline.sync()
        assert last.fetchone() == (2,)


def test_what_runs_is_cancelled(gateway: Server) -> None:
    with _connected(gateway, "postgres") as connection:
        connection.execute("SET statement_timeout = '60s'")
        connection.pgconn.send_query(b"SELECT pg_sleep(60)")
        connection.cancel_safe()
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.error_message.startswith(b"ERROR:  canceling statement due to user request")
        assert connection.pgconn.get_result() is None
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_another_database_is_none(gateway: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match='database "template0" is not served by this gateway'):
        _connected(gateway, "template0")
