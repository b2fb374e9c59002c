"""docs/schema-changes.md has the present tables of windows, and one function opens and closes them."""

from __future__ import annotations

import re
from typing import Final

from tests.house.rooms import ROOT
from tests.house.window_rules import printed, table

# What is below it: settling at COMMIT, and SET CONSTRAINTS, of which it asks where that stands.
_DRIVER: Final = "gateway/statement/statement_windows.py"
_BELOW: Final = ("gateway/session/", "gateway/transaction/")
_MOVES: Final = re.compile(r"\bdeferred\.(?:open|close|settle)\(")


def test_the_tables_of_windows_are_not_stale() -> None:
    assert printed() == table(), "print them anew: python -m tests.house.window_rules"


def test_portals_neither_open_nor_close_windows() -> None:
    found = [
        name
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        if _MOVES.search(path.read_text("utf-8")) and not (name := str(path.relative_to(ROOT))).startswith(_BELOW)
    ]
    assert found == [_DRIVER]
