"""Roles with a password must prove it, over TLS too; others are trusted from this machine."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server


@pytest.fixture
def role(gateway: Server) -> Iterator[str]:
    gateway.psql("-qc", "CREATE ROLE guarded LOGIN PASSWORD 'open sésame'")
    yield "guarded"
    gateway.psql("-qc", "GRANT guarded TO sluice; DROP OWNED BY guarded; DROP ROLE guarded")


@pytest.mark.parametrize("sslmode", ["disable", "require"])
def test_the_right_password(gateway: Server, role: str, sslmode: str) -> None:
    with psycopg.connect(gateway.url, user=role, password="open sésame", sslmode=sslmode) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (role,)
        assert connection.pgconn.ssl_in_use == (sslmode == "require")


@pytest.mark.parametrize("password", ["wrong", ""])
def test_the_wrong_password(gateway: Server, role: str, password: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"password authentication failed|no password"):
        psycopg.connect(gateway.url, user=role, password=password)


def test_a_password_that_has_expired(gateway: Server, role: str) -> None:
    """VALID UNTIL: the right password is a wrong one from then on, and nobody is told which of the two."""
    gateway.psql("-qc", f"ALTER ROLE {role} VALID UNTIL '2020-01-01'")
    with pytest.raises(psycopg.OperationalError, match=f'password authentication failed for user "{role}"'):
        psycopg.connect(gateway.url, user=role, password="open sésame")
    gateway.psql("-qc", f"ALTER ROLE {role} VALID UNTIL 'infinity'")
    psycopg.connect(gateway.url, user=role, password="open sésame").close()


@pytest.mark.parametrize(
    ("rule", "reason"), [("NOLOGIN", "not permitted to log in"), ("CONNECTION LIMIT 0", "too many")]
)
def test_a_role_that_may_not_come_in(gateway: Server, role: str, rule: str, reason: str) -> None:
    """PostgreSQL itself says so, in its own words, when the role's backend is opened."""
    gateway.psql("-qc", f"ALTER ROLE {role} {rule}")
    with pytest.raises(psycopg.OperationalError, match=reason):
        psycopg.connect(gateway.url, user=role, password="open sésame")


def test_a_role_that_is_not_there(gateway: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match='role "nobody_at_all" does not exist'):
        psycopg.connect(gateway.url, user="nobody_at_all")


def test_superusers_of_the_catalog(gateway: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="rights on the catalog itself"):
        psycopg.connect(gateway.superuser.url)


def test_privileges_are_postgresqls(gateway: Server, schema: str, role: str) -> None:
    gateway.psql("-qc", f"CREATE TABLE {schema}.secret (n integer); GRANT USAGE ON SCHEMA {schema} TO {role}")
    with psycopg.connect(gateway.url, user=role, password="open sésame", autocommit=True) as connection:
        for sql in (
            f"SELECT * FROM {schema}.secret",
            f"INSERT INTO {schema}.secret VALUES (1)",
            f"UPDATE {schema}.secret SET n = 2",
            f"DELETE FROM {schema}.secret",
            f"TRUNCATE {schema}.secret",
            f"COPY {schema}.secret FROM STDIN",
            f"COPY {schema}.secret TO STDOUT",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table secret"):
                connection.execute(sql)
