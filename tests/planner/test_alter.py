"""The expressions by which ALTER TABLE gives columns other values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.syntax.alter_text import using_expressions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ALTER TABLE t ALTER a TYPE text", {}),
        ("ALTER TABLE t ALTER a TYPE text USING 'x' || a", {"a": "'x' || a"}),
        ("alter table only s.t alter column A set data type numeric(3, 2) using f(a, 2) ;", {"a": "f(a, 2)"}),
        ('ALTER TABLE IF EXISTS "using" ALTER "A b" TYPE int USING ("A b"::int), ADD x int', {"A b": '("A b"::int)'}),
        (
            "ALTER TABLE t ADD CHECK (a > 0), ALTER b TYPE int USING b::int, ALTER c TYPE date USING d -- why\n",
            {"b": "b::int", "c": "d"},
        ),
        ("ALTER TABLE t ADD CONSTRAINT u UNIQUE USING INDEX i", {}),
        ("ALTER TABLE t ALTER a SET DEFAULT 5, ALTER using TYPE int", {}),
        ("CREATE INDEX i ON t USING btree (a)", {}),
        ("ALTER TABLE t ALTER a SET EXPRESSION AS (b + 1), ALTER COLUMN c SET STATISTICS 5", {"a": "(b + 1)"}),
        ("ALTER TABLE alter ALTER alter TYPE int USING alter + 1", {"alter": "alter + 1"}),
    ],
)
def test_using(text: str, found: dict[str, str]) -> None:
    assert using_expressions(text) == found


@given(st.text(max_size=60))
def test_never_fails(text: str) -> None:
    using_expressions(text)
    using_expressions("ALTER TABLE t ALTER " + text)
