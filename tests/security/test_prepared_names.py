"""A client's prepared statements share a namespace with those of the gateway's functions, without conflicts."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server


def test_a_statement_by_the_name_that_locks_views(gateway: Server, schema: str) -> None:
    """PostgreSQL locks no materialized view; the gateway does, before that is said."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as client:
        client.execute("CREATE TABLE t (id integer); CREATE MATERIALIZED VIEW mv AS SELECT id FROM t")
        client.execute("PREPARE pg_sluice_lock AS SELECT 1")
        client.execute("BEGIN")
        client.execute("ALTER TABLE t ADD COLUMN n integer")
        with pytest.raises(psycopg.errors.WrongObjectType):
            client.execute("LOCK TABLE mv")
        client.execute("ROLLBACK")
        names = client.execute("SELECT name FROM pg_prepared_statements WHERE from_sql").fetchall()
        assert names == [("pg_sluice_lock",)]
