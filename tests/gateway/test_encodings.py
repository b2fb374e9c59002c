"""Clients whose texts are not in UTF-8: nothing of them is taken, or given, for what it is not."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import GatewayProcess

_STATEMENTS = [
    "SELECT s FROM t",
    "INSERT INTO t VALUES (chr(195) || chr(169))",
    "UPDATE t SET s = chr(233)",
    "DELETE FROM t WHERE s = chr(233)",
    "DECLARE c CURSOR WITH HOLD FOR SELECT s FROM t",
    "CREATE TABLE u AS SELECT s FROM t",
    "ALTER TABLE t ADD COLUMN u text DEFAULT chr(233)",
    "EXPLAIN SELECT s FROM t",
]


@pytest.fixture
def latin(gateway_process: GatewayProcess, schema: str) -> psycopg.Connection:
    """A session in LATIN1, beside a table with a row that is the same in any encoding."""
    connection = psycopg.connect(
        gateway_process.server.url, options=f"-csearch_path={schema}", client_encoding="utf8", autocommit=True
    )
    connection.execute("CREATE TABLE t (s text)")
    connection.execute("INSERT INTO t VALUES ('e')")
    connection.execute("SET client_encoding = 'LATIN1'")
    return connection


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_what_postgresql_does_not_convert_is_refused(latin: psycopg.Connection, statement: str) -> None:
    with latin, pytest.raises(psycopg.errors.FeatureNotSupported, match="while client_encoding is LATIN1"):
        latin.execute(statement.encode())


def test_what_it_converts_is_as_there(latin: psycopg.Connection) -> None:
    with latin:
        with latin.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write("é\n".encode("latin-1"))
        with latin.cursor().copy("COPY t TO STDOUT") as copy:
            assert b"".join(copy) in {b"e\n\xe9\n", b"\xe9\ne\n"}
        latin.execute("SET client_encoding = 'UTF8'")
        assert latin.execute("SELECT s, octet_length(s) FROM t WHERE s <> 'e'").fetchone() == ("é", 2)
