"""The locks of COMMIT are not within a client's reach (catalog/sql/commit_locks.sql)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_SECONDS_MAX = 3.0


@pytest.fixture
def attacker(gateway: Server, schema: str) -> Iterator[str]:
    """The URL of a role that may read, and add rows to, the table `commits` in the schema, which has a row 1."""
    role = f"attacker_{secrets.token_hex(4)}"
    with psycopg.connect(gateway.url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}".encode())
        owner.execute(f"CREATE TABLE {schema}.commits (id integer PRIMARY KEY, n integer)".encode())
        owner.execute(f"INSERT INTO {schema}.commits VALUES (1, 1)".encode())
        owner.execute(f"GRANT SELECT, INSERT ON {schema}.commits TO {role}".encode())
        yield gateway.url.replace(f"{gateway.user}@", f"{role}@")
        owner.execute(f"REVOKE ALL ON {schema}.commits FROM {role}; REVOKE ALL ON SCHEMA {schema} FROM {role}".encode())
        owner.execute(f"DROP ROLE {role}".encode())


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT pg_sluice.lock_for_commit('{table}'::regclass, 'UPDATE')",
        "SELECT pg_sluice.await_row('relation', '{table}'::regclass, 'UPDATE')",
        "SELECT pg_sluice.await_row('relation r, pg_catalog.pg_authid', 0, 'UPDATE; SELECT 1')",
        "SELECT pg_sluice.lock_changed()",
        "SELECT FROM pg_sluice.relation FOR UPDATE",
        "SELECT FROM pg_sluice.relation FOR KEY SHARE",
        "LOCK TABLE pg_sluice.relation IN ACCESS SHARE MODE",
        "LOCK TABLE pg_sluice.head IN ROW EXCLUSIVE MODE",
        "DO $$ BEGIN PERFORM pg_sluice.lock_for_commit('{table}'::regclass, 'SHARE'); END $$",
    ],
)
def test_clients_do_not_take_them(attacker: str, schema: str, asked: str) -> None:
    with psycopg.connect(attacker) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(asked.format(table=f"{schema}.commits").encode())


def test_an_open_block_delays_no_commit(gateway: Server, attacker: str, schema: str) -> None:
    """Of rows and keys that it has nothing to do with: it has read, added rows, and waits, in savepoints too."""
    table = f"{schema}.commits"
    with psycopg.connect(attacker) as session, psycopg.connect(gateway.url, autocommit=True) as owner:
        session.execute(f"SELECT * FROM {table}".encode())
        session.execute(f"INSERT INTO {table} VALUES (2, 2)".encode())
        session.execute("SAVEPOINT a")
        session.execute(f"INSERT INTO {table} VALUES (3, 3)".encode())
        session.execute("ROLLBACK TO a")
        begun = time.monotonic()
        owner.execute(f"UPDATE {table} SET n = 10 WHERE id = 1".encode())
        owner.execute(f"INSERT INTO {table} VALUES (4, 4)".encode())
        assert time.monotonic() - begun < _SECONDS_MAX
        session.commit()
        assert owner.execute(f"SELECT id FROM {table} ORDER BY id".encode()).fetchall() == [(1,), (2,), (4,)]
