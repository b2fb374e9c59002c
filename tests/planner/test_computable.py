"""Queries that PostgreSQL may compute over copied rows: their answer does not show that, and they have no effects."""

from __future__ import annotations

import pytest

from planner.plans.computable import is_computable, lasting_functions
from planner.plans.select import single_query
from tests.planner.differential import Laboratory

COMPUTABLE = (
    "SELECT i FROM integers i",
    "SELECT tableoid::regclass FROM integers",
    "SELECT random(), clock_timestamp(), gen_random_uuid() FROM integers",
    "SELECT jsonb_path_query(j, '$.*') FROM documents",
    "SELECT relname FROM pg_class, integers WHERE id = 1",
)
NOT_COMPUTABLE = (
    "SELECT ctid FROM integers",
    "SELECT id FROM integers WHERE xmin IS NOT NULL",
    "SELECT id FROM integers FOR SHARE",
    "SELECT * FROM (SELECT id FROM integers FOR UPDATE) x",
    "SELECT set_config('work_mem', '4MB', true) FROM integers",
    "SELECT pg_advisory_xact_lock(id) FROM integers",
    "SELECT pg_notify('channel', 'said') FROM integers",
    "SELECT query_to_xml('SELECT 1', true, true, '') FROM integers",
    "SELECT id FROM integers WHERE lo_creat(1) > 0",
)


@pytest.mark.parametrize("sql", COMPUTABLE)
def test_computable(probes: Laboratory, sql: str) -> None:
    assert is_computable(single_query(probes.tree(sql)), probes.builtins)


@pytest.mark.parametrize("sql", NOT_COMPUTABLE)
def test_not_computable(probes: Laboratory, sql: str) -> None:
    assert not is_computable(single_query(probes.tree(sql)), probes.builtins)


def test_what_leaves_something_behind_is_for_whoever_sees_to_that(probes: Laboratory) -> None:
    query = single_query(
        probes.tree("SELECT pg_try_advisory_lock(id), set_config('a.b', 'c', true), upper('a') FROM integers")
    )
    assert is_computable(query, probes.builtins, made_by_users=True)
    assert len(lasting_functions(query, probes.builtins)) == 2


def test_functions_made_by_users_are_not(probes: Laboratory) -> None:
    probes.analyser.execute("CREATE FUNCTION made(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT $1'")
    try:
        assert not is_computable(single_query(probes.tree("SELECT made(id) FROM integers")), probes.builtins)
    finally:
        probes.analyser.execute("DROP FUNCTION made(integer)")
