"""Statements that create or drop databases, by their text."""

from __future__ import annotations

import pytest

from planner.syntax.databases import refused

_REFUSED = {
    "CREATE DATABASE test_x": "0A000",
    'create /* a */ database\n"test x" OWNER sluice': "0A000",
    "-- a\nCREATE DATABASE sluice": "42P04",
    "CREATE DATABASE postgres;": "42P04",
    "CREATE DATABASE": "0A000",
    "DROP DATABASE sluice": "0A000",
    'DROP DATABASE IF EXISTS "sluice";': "0A000",
    "DROP DATABASE SLUICE": "0A000",
    "DROP DATABASE other WITH (FORCE)": "0A000",
    'DROP DATABASE U&"sluic\\0065"': "0A000",
    "; /* a */ ;DROP DATABASE sluice": "0A000",
    f"/*{'x' * 100_000}*/ DROP DATABASE sluice": "0A000",
    f"{' ' * 100_000}CREATE{' ' * 100_000}DATABASE x": "0A000",
}
_ALLOWED = (
    "DROP DATABASE other",
    'DROP DATABASE IF EXISTS "Sluice" ;',
    "SELECT 'CREATE DATABASE x'",
    "CREATE TABLE database (n integer)",
    "SELECT 1; CREATE DATABASE x",  # PostgreSQL takes it by itself alone
    "",
)


@pytest.mark.parametrize("sql", _REFUSED, ids=lambda sql: " ".join(sql.split())[:40])
def test_is_refused(sql: str) -> None:
    error = refused(sql, "sluice", {"postgres"})
    assert error is not None
    assert error.sqlstate == _REFUSED[sql]


@pytest.mark.parametrize("sql", _ALLOWED)
def test_is_postgresqls(sql: str) -> None:
    assert refused(sql, "sluice", {"postgres"}) is None
