"""Connections to `postgres` and `template1`, which tools use to create and drop databases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from gateway.wire.messages import backend, frontend
from tests.gateway.wire import Wire
from tests.servers import GatewayProcess, Server


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
            assert made.value.diag.context is None
            with pytest.raises(psycopg.errors.DuplicateDatabase):
                connection.execute(f"CREATE DATABASE {gateway.database}".encode(), prepare=prepare)
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(f"DROP DATABASE IF EXISTS {gateway.database} WITH (FORCE)".encode(), prepare=prepare)
            connection.execute("DROP DATABASE IF EXISTS test_x", prepare=prepare)
            with pytest.raises(psycopg.errors.InvalidCatalogName):
                connection.execute("DROP DATABASE test_x", prepare=prepare)
        assert connection.execute("SELECT 7").fetchone() == (7,)


def test_what_is_refused_can_be_written_in_many_ways(gateway: Server) -> None:
    """DROP DATABASE keeps everybody from logging in for the 5 s for which PostgreSQL waits for the others to go."""
    drop = f"DROP DATABASE {gateway.database}"
    with _connected(gateway, "postgres") as connection:
        for text in (f"; {drop}", f";;-- a\r{drop}", f"/*{'x' * (1 << 17)}*/{drop}", f"{' ' * (1 << 17)}{drop}"):
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(text.encode())
    wire = Wire(replace(gateway, database="postgres"))
    for name in ("s\N{LATIN SMALL LETTER U WITH DIAERESIS}", "n" * (1 << 17)):
        asked = frontend.Parse(name, drop, (23,)), frontend.Bind("", name, (), (b"1",)), frontend.Execute("")
        answers = wire.ask(*asked, frontend.Sync())
        assert [type(answer) for answer in answers[:2]] == [backend.ParseComplete, backend.BindComplete]
        error = answers[2]
        assert isinstance(error, backend.ErrorResponse)
        assert error.to_error().sqlstate == "0A000"
    wire.close()


def test_who_goes_without_waiting_is_answered_to_the_end(gateway: Server) -> None:
    """As PostgreSQL does it: Terminate and the end of what is sent count when their turn comes."""
    for ending in ((frontend.Terminate(),), ()):
        wire = Wire(replace(gateway, database="postgres"))
        wire.send(frontend.Query("SELECT pg_sleep(0.2), 7"), *ending)
        wire.end()
        answers = wire.read_until(backend.ReadyForQuery)
        assert wire.at_end()
        wire.hang_up()
        assert backend.DataRow((b"", b"7")) in answers


def test_what_is_no_message_ends_it_when_its_turn_comes(gateway: Server) -> None:
    wire = Wire(replace(gateway, database="postgres"))
    wire.send_bytes(frontend.Query("SELECT 7").encode() + b"z\0\0\0\x04")
    assert backend.DataRow((b"7",)) in wire.read_until(backend.ReadyForQuery)
    last = wire.read()
    wire.hang_up()
    assert isinstance(last, backend.ErrorResponse)
    assert last.to_error().message == "invalid frontend message type 122"


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


def test_whom_the_owner_lets_connect(data_dir: Path) -> None:
    """Gateways work on where nobody is left that may connect, and when they are started anew anybody can."""
    with GatewayProcess(data_dir) as process:
        with _connected(process.server, "sluice") as owner:
            owner.execute("CREATE TABLE t AS SELECT n FROM generate_series(1, 3) n")
            owner.execute("REVOKE ALL ON DATABASE sluice FROM PUBLIC")
            owner.execute("ALTER TABLE t ADD CHECK (n > 0)")  # over a connection of its own
            owner.execute("REVOKE CONNECT ON DATABASE sluice FROM sluice_gateway")
        with _connected(process.server, "postgres") as owner:
            owner.execute("ALTER DATABASE sluice ALLOW_CONNECTIONS false")
    with GatewayProcess(data_dir) as process, _connected(process.server, "sluice") as owner:
        owner.execute("ALTER TABLE t ADD CHECK (n < 4)")
        assert owner.execute("SELECT count(*) FROM t").fetchone() == (3,)
