"""Rights are checked for the tree that is executed.

Code of a client's runs while PostgreSQL analyses a statement: the CHECK of a domain, for a literal of an array of it.
It changes the search path, and the same text means another table the next time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_FLIP = """
CREATE TABLE {name}.secret (id integer, s text); INSERT INTO {name}.secret VALUES (9, 'mine');
CREATE VIEW {name}.shown AS SELECT * FROM {name}.secret;
CREATE FUNCTION {name}.flip(i integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config(
        'search_path', CASE WHEN current_query() LIKE 'EXPLAIN%' THEN '{name}' ELSE '{schema}' END, false);
    RETURN true;
END $$;
CREATE DOMAIN {name}.flipping AS integer CHECK ({name}.flip(VALUE));
"""
_CODE = "(SELECT 1 AS x WHERE EXISTS (SELECT '{77}'::%s.flipping[])) q"


@pytest.fixture
def stranger(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    """A role that may use the schema, and read nothing in it but a column and a view."""
    name = f"stranger_{secrets.token_hex(4)}"
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN; GRANT {name} TO CURRENT_USER".encode())
        owner.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}; GRANT USAGE ON SCHEMA {schema} TO {name}".encode())
        owner.execute(f"CREATE TABLE {schema}.secret (id integer, s text, open integer)".encode())
        owner.execute(f"INSERT INTO {schema}.secret VALUES (1, 'top secret', 5)".encode())
        owner.execute(f"CREATE VIEW {schema}.shown AS SELECT id FROM {schema}.secret".encode())
        owner.execute(f"GRANT SELECT (open) ON {schema}.secret TO {name}".encode())
        url = gateway.url.replace(f"://{gateway.user}@", f"://{name}@")
        with psycopg.connect(url, autocommit=True, options=f"-csearch_path={name}") as connection:
            connection.execute(_FLIP.format(name=name, schema=schema).encode())
            yield connection
        owner.execute(f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE".encode())
        owner.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {name}; DROP TABLE {schema}.secret CASCADE".encode())
        owner.execute(f"DROP ROLE {name}".encode())


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT secret.* FROM {code}, secret",
        "SELECT count(s) FROM {code}, secret",
        "SELECT secret FROM {code}, secret",
        "SELECT shown.id FROM {code}, shown",
        "DELETE FROM secret USING {code}",
        "UPDATE secret SET s = 'changed' FROM {code}",
        "COPY (SELECT secret.* FROM {code}, secret) TO STDOUT",
        "CREATE TEMP TABLE taken AS SELECT secret.* FROM {code}, secret",
    ],
)
@pytest.mark.parametrize("in_block", [False, True])
def test_a_text_that_means_another_table_each_time(
    stranger: psycopg.Connection, gateway: Server, schema: str, statement: str, in_block: bool
) -> None:
    stranger.autocommit = not in_block
    try:
        found = _found(stranger, statement.format(code=_CODE % stranger.info.user))
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported):
        found = ""
    assert "secret" not in found
    stranger.rollback()
    assert _rows(gateway, schema) == [(1, "top secret")]


def _found(client: psycopg.Connection, sql: str) -> str:
    with client.cursor() as cursor:
        if sql.startswith("COPY"):
            with cursor.copy(sql.encode()) as copy:
                return "".join(map(str, copy))
        cursor.execute(sql.encode())
        return str(cursor.fetchall()) if cursor.description else ""


def _rows(gateway: Server, schema: str) -> list[tuple[object, ...]]:
    with psycopg.connect(gateway.url) as owner:
        return owner.execute(f"SELECT id, s FROM {schema}.secret".encode()).fetchall()


@pytest.mark.parametrize("statement", ["DELETE FROM secret USING {code}", "UPDATE secret SET s = '' FROM {code}"])
def test_a_target_that_is_another_table_from_then_on(
    stranger: psycopg.Connection, gateway: Server, schema: str, statement: str
) -> None:
    """What the code sets while the text is analysed lasts, and the target is named before it runs."""
    name = stranger.info.user
    stranger.execute(
        f"CREATE OR REPLACE FUNCTION {name}.flip(i integer) RETURNS boolean LANGUAGE plpgsql AS $$"
        f" BEGIN PERFORM set_config('search_path', '{name}', false); RETURN true; END $$".encode()
    )
    stranger.execute(f"SET search_path = {schema}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute(statement.format(code=_CODE % name).encode())
    assert _rows(gateway, schema) == [(1, "top secret")]


def test_rights_on_columns_and_views_are_enough(stranger: psycopg.Connection, gateway: Server, schema: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"GRANT SELECT ON {schema}.shown TO {stranger.info.user}".encode())
    for sql, found in (
        (f"SELECT open FROM {schema}.secret", [(5,)]),
        (f"SELECT count(*) FROM {schema}.secret", [(1,)]),
        (f"SELECT id FROM {schema}.shown", [(1,)]),
        (f"WITH unread AS (SELECT s FROM {schema}.secret) SELECT open FROM {schema}.secret", [(5,)]),
    ):
        assert stranger.execute(sql.encode()).fetchall() == found
    for sql in (f"SELECT s FROM {schema}.secret", f"SELECT secret FROM {schema}.secret"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table secret"):
            stranger.execute(sql.encode())
