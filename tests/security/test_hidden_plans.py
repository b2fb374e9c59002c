"""No code makes functions of others miss rows: keys are sought in plans only where no stranger's code can hide these.

PostgreSQL prints the plans of functions' statements to the gateway, which copies the rows that they look up. A role
that can name the table has plans printed that never run, then hides plans in words that no search finds, and calls a
function of the owner's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_ROWS = 25_000
_UNRUN = (
    "BEGIN PERFORM FROM {owner}.banned WHERE id = ANY ('{{1,2,3,4,5,6,8}}');"
    " EXCEPTION WHEN insufficient_privilege THEN NULL; END;"
)
_ENTER = "RETURN {owner}.enter(7);"
_AGGREGATE = (
    "CREATE AGGREGATE settle (text, boolean)"
    " (sfunc = pg_catalog.set_config, stype = text, initcond = 'client_min_messages')"
)
_OPERATOR = (
    "CREATE FUNCTION entered(integer, integer) RETURNS text LANGUAGE plpgsql SET client_min_messages = error"
    " AS $f$ BEGIN {enter} END $f$;"
    " CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = entered)"
)
# The body of a function of the attacker's, and what it makes before; `unrun` and `enter` are the texts above.
HIDING = {
    "set_config": ("{unrun} PERFORM set_config('client_min' || '_messages', 'error', true); {enter}", ""),
    "EXECUTE": ("{unrun} EXECUTE 'SET LOCAL client_min' || '_messages = error'; {enter}", ""),
    "EXECUTE that prints none": ("{unrun} EXECUTE 'SET LOCAL debug_print' || '_plan = off'; {enter}", ""),
    "a name in Unicode": ('{unrun} SET LOCAL U&"client\\005fmin_messages" = error; {enter}', ""),
    "RESET ALL": ("{unrun} RESET ALL; {enter}", ""),
    "pg_settings": (
        "{unrun} UPDATE pg_settings SET setting = 'error' WHERE name LIKE 'client%messages'; {enter}",
        "",
    ),
    "an aggregate": (
        "{unrun} PERFORM settle('error', true); {enter}",
        _AGGREGATE,
    ),
    "a domain": (
        "{unrun} PERFORM 1::settling; {enter}",
        "CREATE DOMAIN settling AS integer CHECK (set_config('client_min_messages', 'error', true) IS NOT NULL)",
    ),
    "an operator": (
        "{unrun} RETURN 7 OPERATOR({attacker}.===) 7;",
        _OPERATOR,
    ),
}
# Statements of the attacker's that call the function themselves. They hide plans, too.
STATEMENTS = {
    "DO": "DO $$ BEGIN {unrun} EXECUTE 'SET LOCAL client_min' || '_messages = error'; PERFORM {owner}.enter(7); END $$",
    "a domain": "SELECT {owner}.enter(CASE WHEN 1::settling = 1 THEN 7 END), {attacker}.unrun()",
    "a view of set_config": "SELECT {owner}.enter(7 + n) FROM settings",
}


@pytest.fixture(scope="module")
def roles(gateway: Server) -> Iterator[tuple[str, str]]:
    """An owner, with a table of those that may not enter and a function that asks it; and an attacker."""
    owner, attacker = (f"{name}_{secrets.token_hex(4)}" for name in ("owner", "attacker"))
    with psycopg.connect(gateway.url, autocommit=True) as session:
        for role in (owner, attacker):
            session.execute(f"CREATE ROLE {role} LOGIN; GRANT {role} TO CURRENT_USER".encode())
            session.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}".encode())
        session.execute(f"GRANT USAGE ON SCHEMA {owner} TO PUBLIC".encode())
        session.execute(f"SET ROLE {owner}; SET search_path = {owner}".encode())
        session.execute("CREATE TABLE banned (id integer PRIMARY KEY)")
        session.execute(f"INSERT INTO banned SELECT generate_series(1, {_ROWS})".encode())
        session.execute(
            "CREATE FUNCTION enter(of_role integer) RETURNS text LANGUAGE plpgsql SECURITY DEFINER"
            f" SET search_path = {owner}, pg_temp AS $$ BEGIN IF EXISTS (SELECT FROM banned WHERE id = of_role)"
            " THEN RAISE 'banned'; END IF; RETURN 'in'; END $$".encode()
        )
        yield owner, attacker
        session.execute("RESET ROLE; SET client_min_messages = warning")
        session.execute(f"DROP SCHEMA {owner} CASCADE; DROP SCHEMA {attacker} CASCADE".encode())
        session.execute(f"DROP ROLE {owner}; DROP ROLE {attacker}".encode())


def _texts(roles: tuple[str, str]) -> dict[str, str]:
    owner, attacker = roles
    names = {"owner": owner, "attacker": attacker}
    return {**names, "unrun": _UNRUN.format(**names), "enter": _ENTER.format(**names)}


@pytest.fixture
def attacker(gateway: Server, roles: tuple[str, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url.replace(f"{gateway.user}@", f"{roles[1]}@")) as session:
        session.execute(f"SET search_path = {roles[1]}".encode())
        yield session
        session.rollback()


@pytest.mark.parametrize("kind", HIDING)
def test_functions_of_others_miss_no_rows(attacker: psycopg.Connection, roles: tuple[str, str], kind: str) -> None:
    texts = _texts(roles)
    body, before = (part.format(**texts) for part in HIDING[kind])
    if before:
        attacker.execute(before.encode())
    attacker.execute(
        f"CREATE FUNCTION go(o integer) RETURNS text LANGUAGE plpgsql AS $go$ BEGIN {body} END $go$".encode()
    )
    with pytest.raises(psycopg.errors.RaiseException, match="banned"):
        attacker.execute("SELECT go(1)")


@pytest.mark.parametrize("kind", STATEMENTS)
def test_nor_do_they_in_statements(attacker: psycopg.Connection, roles: tuple[str, str], kind: str) -> None:
    texts = _texts(roles)
    attacker.execute(
        "CREATE DOMAIN settling AS integer CHECK (set_config('client_min_messages', 'error', true) IS NOT NULL)"
    )
    attacker.execute("CREATE VIEW settings AS SELECT 0 * length(set_config('client_min_messages', 'error', true)) AS n")
    attacker.execute(
        f"CREATE FUNCTION unrun() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN {texts['unrun']} END $f$".encode()
    )
    with pytest.raises(psycopg.errors.RaiseException, match="banned"):
        attacker.execute(STATEMENTS[kind].format(**texts).encode())


def test_of_the_owners_code_keys_are_sought(attacker: psycopg.Connection, roles: tuple[str, str]) -> None:
    """For anybody who calls it; a stranger's code in the statement has the table copied."""
    owner, _ = roles
    attacker.execute("SET sluice.load_limit = '20kB'")
    with pytest.raises(psycopg.errors.RaiseException, match="banned"), attacker.transaction():
        attacker.execute(f"SELECT {owner}.enter(7)".encode())
    assert attacker.execute(f"SELECT {owner}.enter(-1)".encode()).fetchall() == [("in",)]
    attacker.execute("CREATE FUNCTION own(integer) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN $1; END'")
    with pytest.raises(psycopg.errors.FeatureNotSupported), attacker.transaction():
        attacker.execute(f"SELECT {owner}.enter(own(7))".encode())
