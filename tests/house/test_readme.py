"""README.md and docs are true of the project: dependencies, commands, diagrams, links."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from catalog.schema import states as elements
from gateway.wire import states as wire

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def section(title: str) -> str:
    """The text below a second-level heading."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert match is not None, f"README.md has no section {title!r}"
    return match[1]


DOCS = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}


def test_dependencies_are_listed_each_with_its_purpose() -> None:
    required = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
    wanted = {re.split(r"[\[=<>]", requirement)[0] for requirement in required}
    rows = re.findall(r"^\| `([^`]+)` \| (\S.*?) \|$", DOCS["dependencies.md"], re.MULTILINE)
    assert {name for name, _ in rows} == wanted
    assert all(len(purpose) > 10 for _, purpose in rows)


@pytest.mark.parametrize("command", ["gateway/run", "tests/run"])
def test_commands_exist(command: str) -> None:
    assert re.search(rf"^    {command}$", README, re.MULTILINE)
    assert os.access(ROOT / command, os.X_OK)


def test_integration_runs_the_documented_command() -> None:
    assert "tests/run" in (ROOT / ".ci" / "run").read_text()


def test_diagrams_are_those_of_the_tables() -> None:
    drawn = {
        name: re.findall(r"^```mermaid\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL) for name, text in DOCS.items()
    }
    known = {"schema-changes.md": [elements.diagram()], "protocol.md": [wire.mermaid()]}
    assert {name: found for name, found in drawn.items() if found} == known, (
        "print them anew: python -c 'from catalog.schema import states as elements;"
        " from gateway.wire import states as wire; print(elements.diagram()); print(wire.mermaid())'"
    )


def test_the_readme_is_read_in_minutes() -> None:
    assert len(README.splitlines()) <= 200


WITH_LINKS = ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", WITH_LINKS)
def test_links_lead_somewhere(path: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / path).read_text()):
        assert ((ROOT / path).parent / target).is_file(), target
    for named in re.findall(
        r"`((?:gateway|planner|catalog|storage|tests|bench)/[\w/.]+\.(?:py|sql))`", (ROOT / path).read_text()
    ):
        assert (ROOT / named).is_file(), named
