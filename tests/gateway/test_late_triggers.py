"""Deferred triggers in the extended protocol: in pipelines, with COMMIT or Sync at their end; as in PostgreSQL."""

from __future__ import annotations

from itertools import chain

import psycopg
import pytest

from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ErrorResponse
from tests.gateway.wire import wire
from tests.servers import Server

_MADE = """
CREATE TABLE t (id integer PRIMARY KEY, n integer);
CREATE TABLE seen (what text);
CREATE FUNCTION sees() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sum(n) FROM t) > 100 THEN
        RAISE EXCEPTION 'too much' USING ERRCODE = 'P7777';
    END IF;
    INSERT INTO seen VALUES (format('%s %s', NEW.id, (SELECT count(*) FROM t)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER sees AFTER INSERT OR UPDATE ON t DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION sees();
"""


def _outcome(server: Server, schema: str, block: bool, values: list[int]) -> tuple[list[str], list[tuple[object, ...]]]:
    if server.name == "postgres":
        server.psql("-qc", f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")
    statements = [f"INSERT INTO t VALUES ({number}, {value})" for number, value in enumerate(values)]
    statements.append("UPDATE t SET n = n + 1 WHERE id = 0")
    if block:
        late = ["SAVEPOINT a", "SET CONSTRAINTS sees IMMEDIATE", "ROLLBACK TO SAVEPOINT a", "COMMIT"]
        statements = ["BEGIN", *statements, *late]
    with wire(server, search_path=schema) as connection:
        connection.query(_MADE)
        asked = [(frontend.Parse("", sql), frontend.Bind("", ""), frontend.Execute("")) for sql in statements]
        answers = connection.ask(*chain.from_iterable(asked), frontend.Sync())
    errors = [dict(answer.fields)["C"] for answer in answers if isinstance(answer, ErrorResponse)]
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        rows = connection.execute("SELECT what FROM seen UNION ALL SELECT id::text FROM t").fetchall()
    return errors, sorted(rows)


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("values", [[1, 2, 3], [50, 60]])
def test_in_a_pipeline(oracle: Server, gateway: Server, schema: str, block: bool, values: list[int]) -> None:
    expected = _outcome(oracle, schema, block, values)
    assert _outcome(gateway, schema, block, values) == expected


def test_two_sessions(gateway: Server, schema: str) -> None:
    """Each sees what the other has committed by then."""
    options = f"-csearch_path={schema}"
    with (
        psycopg.connect(gateway.url, autocommit=True, options=options) as one,
        psycopg.connect(gateway.url, autocommit=True, options=options) as other,
    ):
        one.execute(_MADE)
        one.execute("INSERT INTO t VALUES (5, 5)")
        one.execute("DELETE FROM seen")
        one.execute("BEGIN")
        one.execute("INSERT INTO t VALUES (1, 1)")
        other.execute("SET statement_timeout = '20s'")
        other.execute("INSERT INTO t VALUES (2, 2)")
        assert other.execute("SELECT count(*) FROM t WHERE id = 2").fetchone() == (1,)
        one.execute("COMMIT")
        total = one.execute("SELECT count(*) FROM t").fetchone()
        assert total is not None
        assert one.execute("SELECT count(*) FROM seen WHERE what LIKE %s", (f"% {total[0]}",)).fetchone() == (1,)


def test_a_cursor_at_commit(gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(_MADE)
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        connection.execute("DECLARE c CURSOR FOR SELECT * FROM t")
        connection.execute("FETCH c")
        try:
            connection.execute("COMMIT")
        except psycopg.errors.FeatureNotSupported:
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        else:
            assert connection.execute("SELECT what FROM seen").fetchall() == [("1 1",)]


def test_they_end_with_statement_timeout(gateway: Server, schema: str) -> None:
    """Each of them makes the next one, and none takes long."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(
            """
            CREATE TABLE t (id integer PRIMARY KEY);
            CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO t VALUES (NEW.id + 1);
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER more AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION more();
            SET statement_timeout = '3s';
            """
        )
        connection.execute("BEGIN; INSERT INTO t VALUES (1)")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute("COMMIT")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        connection.execute("INSERT INTO t SELECT 5 WHERE false")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
