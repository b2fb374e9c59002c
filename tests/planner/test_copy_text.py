"""The places of a COPY's clauses."""

from __future__ import annotations

import pytest

from planner.syntax.copy_text import copy_condition, copy_source


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("COPY t FROM STDIN WHERE a > 1", " a > 1"),
        ("copy t (a) from stdin (null 'where', delimiter ';') where a = ';' ; -- where", " a = ';' "),
        ('COPY "where" FROM STDIN WHERE "where" IN (1, 2) /* ; */', ' "where" IN (1, 2) /* ; */'),
    ],
)
def test_condition(text: str, condition: str) -> None:
    assert copy_condition(text) == condition


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("COPY t TO STDOUT", " t "),
        ("/* copy x to */ copy s.t (a, b) to stdout (format csv)", " s.t (a, b) "),
        ("COPY (SELECT 1 AS to) TO STDOUT", " (SELECT 1 AS to) "),
        ('COPY "to" TO STDOUT', ' "to" '),
    ],
)
def test_source(text: str, source: str) -> None:
    start, end = copy_source(text)
    assert text[start:end] == source
