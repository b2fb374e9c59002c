"""The table of windows in docs/schema-changes.md, printed from its rules: `python -m tests.house.window_rules`."""

from __future__ import annotations

from typing import Final

from gateway.statement.window_rules import WINDOW_RULES
from tests.house.rooms import ROOT, between, write_between

DOCUMENT: Final = ROOT / "docs" / "schema-changes.md"
_BEGIN, _END = "<!-- windows: printed from gateway/statement/window_rules.py -->", "<!-- end of windows -->"


def table() -> str:
    """A row for each rule: when statements run in a window, and their routes."""
    lines = ["| in a window | statements |", "|---|---|"]
    for words in dict.fromkeys(rule.words for rule in WINDOW_RULES.values()):
        routes = (route.value for route, rule in WINDOW_RULES.items() if rule.words == words)
        lines.append(f"| {words} | {', '.join(routes)} |")
    return "\n".join(lines)


def printed() -> str:
    """The table as it stands in the document."""
    return between(DOCUMENT, _BEGIN, _END)


if __name__ == "__main__":
    write_between(DOCUMENT, _BEGIN, _END, table())
