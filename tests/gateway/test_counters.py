"""pg_stat_user_tables counts rows of the lake; pg_stat_activity leaves out the gateway's own connections."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.conftest import MAKER
from tests.servers import Server

_COUNTERS = (
    "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup BETWEEN 995 AND 1990 FROM pg_stat_user_tables"
    " WHERE relid = 'counted'::regclass"
)


@pytest.fixture
def counted(target: Server) -> Iterator[Server]:
    """On PostgreSQL and on the gateway."""
    target.psql("-qc", "CREATE TABLE counted (id integer PRIMARY KEY, t text)")
    yield target
    target.psql("-qc", "DROP TABLE counted")


def test_rows_are_counted_as_statements_change_them(counted: Server) -> None:
    with psycopg.connect(counted.url, autocommit=True) as client:
        client.execute("INSERT INTO counted SELECT i, 'x' FROM generate_series(1, 1000) i")
        client.execute("SELECT count(t) FROM counted WHERE id < 5")  # what is copied for a query is none of it
        with client.transaction():
            client.execute("UPDATE counted SET t = 'y' WHERE id <= 10")
            client.execute("DELETE FROM counted WHERE id > 997")
            client.execute("DELETE FROM counted WHERE id > 995")
        client.execute("ANALYZE counted")
        client.execute("SELECT pg_stat_force_next_flush()")
        assert client.execute(_COUNTERS).fetchone() == (1000, 10, 5, True)


def test_rows_that_are_there_and_gone(gateway: Server) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as client:
        client.execute("CREATE TABLE counted_here (id integer)")
        client.execute("INSERT INTO counted_here SELECT * FROM generate_series(1, 10)")
        client.execute("DELETE FROM counted_here WHERE id > 7")
        rows = "SELECT n_live_tup, n_dead_tup FROM pg_stat_all_tables WHERE relid = 'counted_here'::regclass"
        assert client.execute(rows).fetchone() == (7, 3)
        client.execute("TRUNCATE counted_here")
        assert client.execute(rows).fetchone() == (0, 0)
        client.execute("DROP TABLE counted_here")


def test_idle_connections_are_clients(target: Server) -> None:
    with psycopg.connect(target.url, autocommit=True) as client, psycopg.connect(target.url) as other:
        idle = client.execute(
            "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND pid <> pg_backend_pid() AND usename IS NOT NULL"
            " AND application_name <> %s",
            (MAKER,),
        ).fetchall()
        assert idle == [(other.info.backend_pid,)]
