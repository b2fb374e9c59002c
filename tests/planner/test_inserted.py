"""The place of an INSERT's query."""

from __future__ import annotations

import pytest

from planner.syntax.insert_source import inserted_query


@pytest.mark.parametrize(
    ("before", "query"),
    [
        ("INSERT INTO t ", "SELECT 1"),
        ("insert into s.t (a, b) ", "select a, b from x"),
        ('INSERT INTO t AS x ("select", a[1]) -- (SELECT\n', "TABLE u"),
        ("INSERT INTO t OVERRIDING USER VALUE ", "WITH w AS (SELECT 1) SELECT * FROM w"),
        ("INSERT INTO t ", "((SELECT 1) UNION SELECT 2)"),
        ("INSERT INTO t (a) ", "(WITH w AS (SELECT 1) TABLE w)"),
    ],
)
def test_it_is_found(before: str, query: str) -> None:
    assert inserted_query(before + query) == len(before)


@pytest.mark.parametrize(
    "text", ["", "INSERT INTO t VALUES (1)", "WITH w AS (SELECT 1) INSERT INTO t TABLE w", "SELECT 1"]
)
def test_there_is_none(text: str) -> None:
    assert inserted_query(text) is None
