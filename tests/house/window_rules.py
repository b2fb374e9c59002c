"""The table of windows in docs/schema-changes.md, printed from its rules: `python -m tests.house.window_rules`."""

from __future__ import annotations

from typing import Final

from gateway.statement.window_rules import PLACEMENTS
from tests.house.rooms import ROOT, between, write_between

DOCUMENT: Final = ROOT / "docs" / "schema-changes.md"
_BEGIN, _END = "<!-- windows: printed from gateway/statement/window_rules.py -->", "<!-- end of windows -->"


def table() -> str:
    """A row for each placement: when statements run in a window and beside it, and their routes."""
    lines = ["| in a window | beside it | statements |", "|---|---|---|"]
    words = {route: (each.in_window.words, each.beside.words) for route, each in PLACEMENTS.items()}
    for both in dict.fromkeys(words.values()):
        routes = (route.value for route, each in words.items() if each == both)
        lines.append(f"| {both[0]} | {both[1]} | {', '.join(routes)} |")
    return "\n".join(lines)


def printed() -> str:
    """The table as it stands in the document."""
    return between(DOCUMENT, _BEGIN, _END)


if __name__ == "__main__":
    write_between(DOCUMENT, _BEGIN, _END, table())
