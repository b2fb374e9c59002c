"""docs/security.md is true of a catalog: owners, callers and names of everything."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.rows import dict_row

from catalog.bootstrap import bootstrap
from catalog.postgres.embedded import SUPERUSER, EmbeddedPostgres

_MODEL: Final = Path(__file__).parents[2] / "docs" / "security.md"
_DATABASE: Final = "security_model"
_OURS: Final = "('pg_sluice'::regnamespace, 'pg_ducklake'::regnamespace)"
_FUNCTIONS: Final = """
SELECT proname::text AS name, pg_get_userbyid(proowner)::text AS owner, prosecdef AS definer, prokind::text AS kind,
       has_function_privilege('public', oid, 'EXECUTE') AS open, coalesce(proconfig, '{}') AS settings, prosrc AS body,
       (SELECT lanname::text FROM pg_language l WHERE l.oid = prolang) AS language
FROM pg_proc WHERE pronamespace = 'pg_sluice'::regnamespace
"""
# What may stand before a relation's name, and the words that stand there for something else.
_NAMED: Final = re.compile(
    r"\b(?:FROM|JOIN|UPDATE|INSERT\s+INTO|LOCK\s+TABLE|TABLE)\s+(?:ONLY\s+)?([a-z_]+)\b(?!\s*[.(%])", re.IGNORECASE
)
_WITH: Final = re.compile(r"\b([a-z_]+)\b(?:\s*\([a-z_, ]+\))?\s+AS\s+(?:MATERIALIZED\s+)?\(")
# Comments, texts, and what has a FROM that names no relation.
_NO_CODE: Final = re.compile(
    r"--[^\n]*|'(?:[^']|'')*'|\bextract\([^)]*\)|\bIS (?:NOT )?DISTINCT FROM\b|\bsubstring\([^)]*\)"
    r"|\bFOR UPDATE(?: SKIP LOCKED)?\b"
)
_NO_NAMES: Final = frozenset({"lateral", "unnest", "select", "set", "of", "only"})


Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def catalog(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """A catalog with one table, of a client's."""
    with psycopg.connect(postgres.dsn, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {_DATABASE}".encode())
        asyncio.run(bootstrap(postgres.url(_DATABASE), "/lake/"))
        with psycopg.connect(postgres.url(_DATABASE), autocommit=True, row_factory=dict_row) as connection:
            connection.execute("CREATE ROLE security_owner")
            connection.execute("GRANT CREATE ON SCHEMA public TO security_owner")
            connection.execute("SET ROLE security_owner")
            connection.execute("CREATE TABLE public.t (n integer)")
            connection.execute("RESET ROLE")
            yield connection
        server.execute(f"DROP DATABASE {_DATABASE} (FORCE)".encode())
        server.execute("DROP ROLE security_owner")


def _rows(catalog: psycopg.Connection[dict[str, Any]], sql: str) -> Rows:
    return catalog.execute(sql.encode()).fetchall()


def _listed(heading: str) -> set[str]:
    """The functions in the tables of a section: names in backquotes in the first column."""
    section = _MODEL.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_each_function_with_other_rights_is_in_the_model(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    functions = _rows(catalog, _FUNCTIONS)
    of_superuser = {each["name"] for each in functions if each["owner"] == SUPERUSER}
    assert of_superuser == _listed("Functions of the superuser's")
    others = {each["name"] for each in functions if each["owner"] != SUPERUSER and each["definer"]}
    assert others == _listed("Functions of sluice_metadata's that run with its rights")
    assert {each["owner"] for each in functions} == {SUPERUSER, "sluice_metadata"}
    assert not [each["name"] for each in functions if each["open"] and each["owner"] == SUPERUSER]


def test_what_clients_may_call_asks_who_asks(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    """But for the few that the model lists as open to anybody."""
    section = _MODEL.read_text().split("Clients may call these; ")[1].split("These obey")[0]
    open_to_all = set(re.findall(r"`(\w+)`", section)) | {"attend", "volatile_functions", "refuse_in_the_past"}
    for each in _rows(catalog, _FUNCTIONS):
        if each["open"] and each["name"] not in open_to_all:
            first = each["body"].split("BEGIN", 1)[-1].strip()
            asks = ("PERFORM pg_sluice.authorize(", "SELECT array_agg(f)", "PERFORM pg_sluice.lock_tables(")
            assert first.startswith(asks), f"{each['name']} does not ask first"


def test_names_are_postgresqls_or_have_their_schema(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    relations = {row["relname"] for row in _rows(catalog, "SELECT relname FROM pg_class WHERE relnamespace = 11")}
    for each in _rows(catalog, _FUNCTIONS):
        if each["kind"] != "a" and each["language"] != "internal":  # whose bodies have no names
            assert "search_path=pg_catalog, pg_temp" in each["settings"], each["name"]
        body = re.sub(_NO_CODE, "", each["body"])
        own = {name.lower() for name in _WITH.findall(body)}
        named = {name.lower() for name in _NAMED.findall(body)} - _NO_NAMES - own
        assert named <= relations, f"{each['name']} names {named - relations} without a schema"


def test_relations_are_of_the_role_that_cannot_log_in(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    owned = _rows(
        catalog,
        f"SELECT relname::text, pg_get_userbyid(relowner)::text AS owner FROM pg_class WHERE relnamespace IN {_OURS}",
    )
    [table] = _rows(catalog, "SELECT 'public.t'::regclass::oid AS oid")
    views = {each["relname"] for each in owned if each["owner"] == "sluice_shadow"}
    assert views == {f"shadow_{table['oid']}"}
    assert {each["owner"] for each in owned} == {"sluice_metadata", "sluice_shadow"}
    closed = _rows(
        catalog,
        f"SELECT relname::text FROM pg_class WHERE relnamespace IN {_OURS} AND relkind = 'r'"
        " AND has_table_privilege('public', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')",
    )
    assert not closed
    given = _rows(
        catalog,
        f"SELECT relname::text FROM pg_class WHERE relnamespace IN {_OURS} AND relkind = 'v'"
        " AND has_table_privilege('public', oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER, MAINTAIN')",
    )
    assert not given, "who may change a view may lock its tables in any mode"
    open_rows = _rows(
        catalog,
        f"SELECT relname::text FROM pg_class WHERE relnamespace IN {_OURS} AND relkind = 'r' AND NOT relrowsecurity"
        " AND relname !~ '^table_lock_[0-9]+$'",
    )
    assert not open_rows


def test_roles(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    roles = {
        row["rolname"]: row
        for row in _rows(catalog, "SELECT * FROM pg_roles WHERE rolname LIKE 'sluice\\_%'")
        if row["rolname"] in {"sluice_metadata", "sluice_shadow", "sluice_gateway", "sluice_reader"}
    }
    assert len(roles) == 4
    for name, role in roles.items():
        assert not any(role[f"rol{may}"] for may in ("super", "createrole", "createdb", "replication")), name
        assert role["rolcanlogin"] is (name in {"sluice_gateway", "sluice_reader"})
        assert role["rolbypassrls"] is (name == "sluice_shadow")
    members = _rows(
        catalog,
        "SELECT roleid::regrole::text AS roleid, member::regrole::text AS member FROM pg_auth_members"
        " WHERE roleid::regrole::text LIKE 'sluice\\_%' OR member::regrole::text LIKE 'sluice\\_%' ORDER BY 1, 2",
    )
    ours = [tuple(row.values()) for row in members if row["member"] in roles or row["roleid"] in roles]
    assert ours == [
        ("pg_maintain", "sluice_gateway"),
        ("pg_read_all_data", "sluice_gateway"),
        ("pg_read_all_data", "sluice_shadow"),
        ("pg_read_all_stats", "sluice_metadata"),
        ("pg_signal_backend", "sluice_gateway"),
        ("pg_use_reserved_connections", "sluice_gateway"),
        ("pg_write_all_data", "sluice_shadow"),
        ("sluice_metadata", "sluice_gateway"),
    ]


def test_event_triggers(catalog: psycopg.Connection[dict[str, Any]]) -> None:
    rows = _rows(catalog, "SELECT evtfoid::regproc::text AS function FROM pg_event_trigger")
    functions = {row["function"].removeprefix("pg_sluice.") for row in rows}
    assert functions <= _listed("Functions of sluice_metadata's that run with its rights") | {"refuse_in_the_past"}
    assert len(rows) == 7
