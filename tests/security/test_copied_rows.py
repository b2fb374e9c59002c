"""Rows that are copied for PostgreSQL to compute over run no code of a table's owner as anybody else, and copies are
made of no table on which the client has no right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from tests.servers import Server


@pytest.fixture
def roles(gateway: Server, schema: str) -> Iterator[tuple[Server, Server]]:
    """Who makes tables with code of theirs, and whom they wait for. Each may make things in the schema."""
    names = [f"{schema}_{kind}" for kind in ("owner", "client")]
    for name in names:
        gateway.psql(
            "-qc",
            f"CREATE ROLE {name} LOGIN; GRANT CREATE, USAGE ON SCHEMA {schema} TO {name};"
            f"CREATE SEQUENCE {schema}.{name}_ran; GRANT ALL ON SEQUENCE {schema}.{name}_ran TO PUBLIC",
        )
    owner, client = [replace(gateway, user=name) for name in names]
    yield owner, client
    gateway.psql("-qc", f"GRANT {owner.user}, {client.user} TO CURRENT_USER")
    for name in (client.user, owner.user):
        gateway.psql("-qc", f"SET client_min_messages = error; DROP OWNED BY {name} CASCADE")
    gateway.psql("-qc", f"DROP ROLE {owner.user}, {client.user}")


def _make(owner: Server, client: Server, schema: str) -> None:
    """A table whose CHECK notes as whom it runs, which also whatever is undone does not take back."""
    client.psql(
        "-qc",
        f"SET search_path = {schema}; CREATE TABLE mine (k integer PRIMARY KEY); INSERT INTO mine VALUES (1), (12);"
        f"GRANT REFERENCES ON mine TO {owner.user}; GRANT INSERT, DELETE ON mine TO {owner.user}",
    )
    owner.psql(
        "-qc",
        f"""SET search_path = {schema};
        CREATE FUNCTION noted() RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN PERFORM nextval(format('{schema}.%I', current_user || '_ran')); RETURN true; END $$;
        GRANT EXECUTE ON FUNCTION noted TO PUBLIC;
        CREATE TABLE "end" (k integer, CHECK ({schema}.noted())); INSERT INTO "end" VALUES (1);
        CREATE TABLE lure (k integer, CHECK ({schema}.noted())); INSERT INTO lure VALUES (12);
        CREATE DOMAIN watched AS text CHECK ({schema}.noted());
        CREATE TABLE by_domain (k integer, CHECK ((k::text::{schema}.watched) IS NOT NULL));
        INSERT INTO by_domain VALUES (12);
        CREATE TABLE by_json (k integer, CHECK (json_value('1', '$' RETURNING {schema}.watched) IS NOT NULL));
        INSERT INTO by_json VALUES (12);
        CREATE TABLE child (k integer REFERENCES mine, CHECK ({schema}.noted())); INSERT INTO child VALUES (12);
        GRANT SELECT, INSERT, DELETE ON "end", lure, by_domain, by_json, child TO PUBLIC""",
    )


def _has_run_as(gateway: Server, schema: str, role: Server) -> bool:
    [[called]] = gateway.query(f"SELECT is_called FROM {schema}.{role.user}_ran")
    return called == "t"


@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize(
    "sql",
    [
        "DO $$ BEGIN PERFORM count(*) FROM mine; END $$",
        "DO $$ BEGIN PERFORM count(*) FROM lure; END $$",
        "DO $$ BEGIN INSERT INTO mine VALUES (2); PERFORM set_config('a.b', 'c', true); /* lure child */ END $$",
        "DO $$ BEGIN DELETE FROM mine WHERE k = 1; END $$",
        "SELECT count(*) FROM lure WHERE k::text ~ '(?<=1)2'",
        "SELECT count(*), random() < 2 FROM lure, mine WHERE lure.k::text ~ '(?<=1)2' GROUP BY 2",
        "DELETE FROM lure WHERE k::text ~ '(?<=1)2'",
        "DELETE FROM lure WHERE k = 12",
        "SELECT count(*) FROM by_domain WHERE k::text ~ '(?<=1)2'",
        "DO $$ BEGIN PERFORM count(*) FROM by_domain; END $$",
        "SELECT count(*) FROM by_json WHERE k::text ~ '(?<=1)2'",
        "BEGIN; DECLARE c CURSOR FOR SELECT k FROM lure WHERE k::text ~ '(?<=1)2'; FETCH c; COMMIT",
        "COPY (SELECT k FROM lure WHERE k::text ~ '(?<=1)2') TO STDOUT",
        "CREATE TEMPORARY TABLE t AS SELECT k FROM lure WHERE k::text ~ '(?<=1)2'",
        "INSERT INTO mine SELECT k + 100 FROM lure WHERE k::text ~ '(?<=1)2'",
        "WITH gone AS (DELETE FROM lure RETURNING k) SELECT count(*) FROM gone",
    ],
)
def test_code_of_the_tables_owner(
    gateway: Server, roles: tuple[Server, Server], schema: str, sql: str, engine: str
) -> None:
    owner, client = roles
    _make(owner, client, schema)
    client.psql("-qc", f"SET search_path = {schema}; SET sluice.engine = {engine}; {sql}")
    assert _has_run_as(gateway, schema, owner)
    assert not _has_run_as(gateway, schema, client)


def test_what_others_taught_the_gateway(gateway: Server, roles: tuple[Server, Server], schema: str) -> None:
    """A statement of one role says nothing of the tables that another's needs."""
    owner, client = roles
    _make(owner, client, schema)
    client.psql(
        "-qc",
        f"""SET search_path = {schema};
        CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
        CREATE TRIGGER fired BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION fired()""",
    )
    owner.psql(
        "-qc",
        f"""SET search_path = {schema};
        CREATE FUNCTION num() RETURNS integer LANGUAGE plpgsql AS $$
        BEGIN RETURN (SELECT 1000000 * random() FROM {schema}."end"); END $$;
        INSERT INTO mine VALUES (num())""",
    )
    client.psql("-qc", f"SET search_path = {schema}; INSERT INTO mine VALUES (7)")
    assert not _has_run_as(gateway, schema, client)


def test_tables_without_any_right_are_not_in_the_way(
    gateway: Server, roles: tuple[Server, Server], schema: str
) -> None:
    """To name them copies and locks nothing."""
    owner, client = roles
    client.psql("-qc", f"SET search_path = {schema}; CREATE TABLE account (k integer PRIMARY KEY, v integer)")
    client.psql("-qc", f"INSERT INTO {schema}.account SELECT i, i FROM generate_series(1, 10) i")
    owner.psql("-qc", f"CREATE TABLE {schema}.own (x integer PRIMARY KEY)")
    named = f"{schema} account {schema}.account"
    with psycopg.connect(owner.url) as naming:
        naming.execute(
            f"DO $$ BEGIN INSERT INTO {schema}.own VALUES (2); PERFORM set_config('x.y', '1', true); /* {named} */"
            " END $$".encode()
        )
        for sql in (
            "INSERT INTO account VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 7",
            "DO $$ BEGIN UPDATE account SET v = v + 1 WHERE k = 2; END $$",
            "SELECT count(*) FROM account WHERE v::text ~ '(?<=1)2'",
            "ALTER TABLE account ADD COLUMN more integer",
            "TRUNCATE account",
        ):
            client.psql("-qc", f"SET statement_timeout = '20s'; SET search_path = {schema}; {sql}")
        naming.rollback()
