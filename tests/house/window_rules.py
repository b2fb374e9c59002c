"""The table of windows in docs/schema-changes.md, printed from its rules: `python -m tests.house.window_rules`."""

from __future__ import annotations

from typing import Final

from gateway.statement.window_rules import WINDOW_RULES
from tests.house.rooms import ROOT

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
    """What the document has between its marks."""
    return DOCUMENT.read_text().partition(_BEGIN)[2].partition(_END)[0].strip()


def main() -> None:
    """Write the table into the document."""
    before, _, rest = DOCUMENT.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    DOCUMENT.write_text(f"{before}{_BEGIN}\n{table()}\n{_END}{after}")


if __name__ == "__main__":
    main()
