"""The tables of windows in docs/schema-changes.md, printed from the rules: `python -m tests.house.window_rules`."""

from __future__ import annotations

from collections.abc import Iterator
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
    return "\n".join([*lines, "", *_steps()])


def _steps() -> Iterator[str]:
    """A row for the steps of each kind of schema change."""
    yield "| schema change | its steps |"
    yield "|---|---|"
    of_routes = {route: each.steps for route, each in PLACEMENTS.items() if each.steps}
    for steps in dict.fromkeys(of_routes.values()):
        routes = ", ".join(route.value for route, each in of_routes.items() if each == steps)
        words = (f"{number}. {step.place.value}: {step.words}" for number, step in enumerate(steps, 1))
        yield f"| {routes} | {'; '.join(words) if len(steps) > 1 else f'{steps[0].place.value}: {steps[0].words}'} |"


def printed() -> str:
    """The table as it stands in the document."""
    return between(DOCUMENT, _BEGIN, _END)


if __name__ == "__main__":
    write_between(DOCUMENT, _BEGIN, _END, table())
