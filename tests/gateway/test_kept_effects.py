"""What PostgreSQL's functions in an INSERT leave; `golden/sessions/large-objects.sql` has the rest."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server, sqlstate_of


def test_notifications_of_inserts_come_once(oracle: Server, gateway: Server, schema: str) -> None:
    """Those of an INSERT that fails do not."""
    for server in (oracle, gateway):
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"SET search_path = {schema if server is gateway else 'public'}".encode())
            connection.execute("CREATE TABLE note (id integer PRIMARY KEY, sent text)")
            connection.execute("LISTEN notes")
            add = "INSERT INTO note VALUES (%s, pg_notify('notes', %s)::text)"
            connection.execute(add, (1, "one"))
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute(add, (1, "none"))
            with connection.transaction():
                connection.cursor().executemany(add, [(2, "two"), (3, "three")])
            got = [each.payload for each in connection.notifies(timeout=1.0)]
            assert got == ["one", "two", "three"], server.name
            assert connection.execute("SELECT id, sent FROM note ORDER BY id").fetchall() == [(1, ""), (2, ""), (3, "")]
            connection.execute("DROP TABLE note")


def test_beside_a_function_of_users_they_are_refused(gateway: Server, schema: str) -> None:
    sqlstate, message = sqlstate_of(
        gateway,
        f"SET search_path = {schema}",
        "CREATE TABLE note (id integer, sent text)",
        "CREATE FUNCTION one() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'",
        "INSERT INTO note VALUES (one(), pg_notify('notes', 'x')::text)",
    )
    assert (sqlstate, message.splitlines()[0]) == (
        "0A000",
        "a function that leaves something behind, beside a function of users is not supported on lake tables",
    )
