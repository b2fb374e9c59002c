"""What a role's statements have used is not held for it any more once it has lost the right."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server


@pytest.fixture
def roles(gateway: Server) -> Iterator[tuple[str, str]]:
    """An owner of a table and of a function that reads it, and a role that may call that as a member of the owner."""
    owner, member = (f"{name}_{secrets.token_hex(4)}" for name in ("owner", "member"))
    with psycopg.connect(gateway.url, autocommit=True) as session:
        for role in (owner, member):
            session.execute(f"CREATE ROLE {role} LOGIN; GRANT {role} TO CURRENT_USER".encode())
        session.execute(f"CREATE SCHEMA {owner} AUTHORIZATION {owner}".encode())
        session.execute(f"GRANT USAGE ON SCHEMA {owner} TO PUBLIC; GRANT {owner} TO {member}".encode())
        session.execute(f"SET ROLE {owner}; SET search_path = {owner}".encode())
        session.execute("CREATE TABLE rows AS SELECT 1 AS id; CREATE TABLE named AS SELECT 1 AS id")
        session.execute("GRANT SELECT ON named TO PUBLIC")
        session.execute(
            "CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER"
            f" SET search_path = {owner}, pg_temp AS $$ DECLARE n bigint;"
            " BEGIN PERFORM FROM named; EXECUTE 'SELECT count(*) FROM ro' || 'ws' INTO n; RETURN n; END $$".encode()
        )
        session.execute("REVOKE ALL ON FUNCTION counted FROM PUBLIC")
        yield owner, member
        session.execute("RESET ROLE; SET client_min_messages = warning")
        session.execute(f"DROP SCHEMA {owner} CASCADE; DROP ROLE {member}; DROP ROLE {owner}".encode())


def test_a_table_is_not_held_for_a_role_that_lost_its_right(gateway: Server, roles: tuple[str, str]) -> None:
    owner, member = roles
    asked = f"SELECT {owner}.counted()".encode()
    url = gateway.url.replace(f"{gateway.user}@", f"{member}@")
    with psycopg.connect(url, autocommit=True) as session, psycopg.connect(gateway.url) as other:
        for _ in range(2):
            assert session.execute(asked).fetchone() == (1,)
        other.execute(f"REVOKE {owner} FROM {member}".encode())
        other.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(asked)
        other.execute(f"LOCK TABLE {owner}.rows IN ACCESS EXCLUSIVE MODE".encode())
        session.execute("SET statement_timeout = '4s'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(asked)
