"""docs/schema-changes.md has the present table of windows."""

from __future__ import annotations

from tests.house.window_rules import printed, table


def test_the_table_of_windows_is_not_stale() -> None:
    assert printed() == table(), "print it anew: python -m tests.house.window_rules"
