"""The views by which gateways read shadows: what a role without any right on a table can do by their names."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_SPIES = """
CREATE FUNCTION spy(text, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN PERFORM pg_catalog.nextval('{schema}.spied'); RETURN true; END $$;
CREATE FUNCTION spy(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN PERFORM pg_catalog.nextval('{schema}.spied'); RETURN true; END $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = spy, RESTRICT = eqsel);
CREATE OPERATOR <<< (LEFTARG = integer, RIGHTARG = integer, FUNCTION = spy, RESTRICT = scalarltsel);
CREATE SEQUENCE spied;
"""


@pytest.fixture
def mallory(gateway: Server, schema: str) -> Iterator[tuple[psycopg.Connection, str]]:
    """A session of a role without rights on `secret`, and the name of the view of its shadow."""
    role = f"{schema}_mallory"
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as owner:
        owner.execute("CREATE TABLE secret (id integer PRIMARY KEY, ssn text)")
        owner.execute("INSERT INTO secret SELECT i, 'ssn-' || i % 5 FROM generate_series(1, 2000) i")
        owner.execute("ANALYZE secret")
        owner.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}".encode())
        row = owner.execute("SELECT 'secret'::regclass::oid").fetchone()
        assert row is not None
        url = gateway.url.replace("//sluice@", f"//{role}@")
        with psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema}") as connection:
            connection.execute(_SPIES.format(schema=schema).encode())
            yield connection, f"pg_sluice.shadow_{row[0]}"
            connection.execute("DROP OWNED BY CURRENT_USER CASCADE")
        owner.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {role}; DROP ROLE {role}".encode())


def _do(connection: psycopg.Connection, sql: str) -> None:
    connection.execute(f"DO $do$ BEGIN EXECUTE $sql${sql}$sql$; END $do$".encode())


def test_no_operator_of_a_clients_sees_statistics(mallory: tuple[psycopg.Connection, str], schema: str) -> None:
    connection, view = mallory
    for condition in (f"(s.kept).ssn OPERATOR({schema}.===) 'x'", f"(s.kept).id OPERATOR({schema}.<<<) 5"):
        _do(connection, f"EXPLAIN SELECT FROM {view} s WHERE {condition}")
    assert connection.execute("SELECT is_called FROM spied").fetchone() == (False,)


@pytest.mark.parametrize(
    "sql",
    [
        "LOCK TABLE {view} IN ACCESS EXCLUSIVE MODE",
        "LOCK TABLE {view} IN SHARE MODE",
        "LOCK TABLE {view} IN ROW EXCLUSIVE MODE",
        "DELETE FROM {view}",
        "INSERT INTO {view} DEFAULT VALUES",
        "UPDATE {view} SET kept = NULL",
        "CREATE TRIGGER t INSTEAD OF DELETE ON {view} FOR EACH ROW EXECUTE FUNCTION nothing()",
        "SELECT FROM {view} FOR UPDATE",
    ],
)
def test_nothing_but_a_look_is_allowed(mallory: tuple[psycopg.Connection, str], sql: str) -> None:
    connection, view = mallory
    with pytest.raises(psycopg.Error) as raised:
        _do(connection, sql.format(view=view))
    assert raised.value.sqlstate in {"42501", "55000"}  # 55000: no view that could be changed


def test_no_role_can_make_a_view_to_empty_a_shadow(mallory: tuple[psycopg.Connection, str]) -> None:
    connection, view = mallory
    oid = view.rpartition("_")[2]
    for call in (f"begin_emptying({oid})", f"end_emptying({oid})", f"open_emptying({oid}, current_user)"):
        with pytest.raises(psycopg.Error) as raised:
            _do(connection, f"SELECT pg_sluice.{call}")
        assert raised.value.sqlstate == "42501"
