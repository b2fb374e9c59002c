"""Autovacuum keeps PostgreSQL's catalogs small, and leaves the statistics of shadows alone."""

from __future__ import annotations

import time

import pytest

from tests.servers import Server

_SECONDS_MAX = 120.0
_VACUUMED = "SELECT autovacuum_count FROM pg_stat_sys_tables WHERE relid = 'pg_catalog.pg_depend'::regclass"


@pytest.mark.turns
def test_autovacuum_works_on_catalogs_and_not_on_shadows(gateway: Server) -> None:
    gateway.psql(
        "-qc", "CREATE TABLE kept_small (id integer PRIMARY KEY, t text)",
        "-c", "INSERT INTO kept_small SELECT g, 'x' FROM generate_series(1, 1000) g",
        "-c", "ANALYZE kept_small",
    )  # fmt: skip
    try:
        [(before,)] = gateway.query(_VACUUMED)
        churn = "CREATE TEMPORARY TABLE made (id serial PRIMARY KEY, a integer UNIQUE); DROP TABLE made;"
        # Each puts rows into the shadow and takes them back, so they are dead there.
        gateway.psql("-q", sql="SELECT k, g FROM kept_small k, generate_series(1, 1) g LIMIT 1;" * 3)
        deadline = time.monotonic() + _SECONDS_MAX
        while gateway.query(_VACUUMED)[0][0] == before:
            assert time.monotonic() < deadline, "pg_depend was never vacuumed"
            # In the end these are more than a fifth of all rows, however many tables there were before.
            gateway.psql("-q", sql=churn * 100)
            time.sleep(1)
        found = gateway.query(
            "SELECT c.reltuples::integer, s.autovacuum_count::integer, s.autoanalyze_count::integer FROM pg_class c"
            " JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE c.oid = 'kept_small'::regclass"
        )
        assert [tuple(map(int, row)) for row in found] == [(1000, 0, 0)]
    finally:
        gateway.psql("-qc", "DROP TABLE kept_small")


def test_a_further_database_is_refused_with_a_way_to_get_on(gateway: Server) -> None:
    said = gateway.psql("-c", "CREATE DATABASE further", check=False, merge_output=True).stdout
    assert "ERROR:  CREATE DATABASE is not supported" in said
    assert "HINT:  A lake is one database." in said
    # What names no database that there is, is PostgreSQL's to answer.
    said = gateway.psql("-c", "DROP DATABASE IF EXISTS further", check=False, merge_output=True).stdout
    assert 'NOTICE:  database "further" does not exist, skipping' in said
