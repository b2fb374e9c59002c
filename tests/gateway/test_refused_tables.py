"""Kinds of tables and constraints that are refused: before any effect, as 0A000, with a hint."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server

_REFUSED = (
    "CREATE TABLE refused (n int) PARTITION BY RANGE (n)",
    "CREATE TABLE refused () INHERITS (there)",
    "CREATE TABLE refused OF pair",
    "CREATE RULE refused AS ON INSERT TO there DO NOTHING",
    "CREATE PUBLICATION refused FOR TABLE there",
    "CREATE PUBLICATION refused FOR TABLE there (n) WHERE (n > 1)",
    "CREATE PUBLICATION refused; ALTER PUBLICATION refused ADD TABLE there",
)
_LEFT = "SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'refusing'::regnamespace AND relkind IN ('r', 'p')"


@pytest.mark.parametrize("sql", _REFUSED)
def test_it_is_refused_before_any_effect(gateway: Server, sql: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as client:
        client.execute("CREATE SCHEMA refusing; SET search_path = refusing")
        try:
            client.execute("CREATE TYPE pair AS (a int, b int); CREATE TABLE there (n int, r int4range)")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="on lake tables") as raised:
                client.execute(sql.encode())
            assert raised.value.diag.message_hint
            assert client.execute(_LEFT).fetchall() == [("there", 2)]
            assert not client.execute("SELECT FROM pg_publication").fetchall()
        finally:
            client.execute("DROP SCHEMA refusing CASCADE")
