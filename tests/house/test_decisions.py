"""docs/adr has one record for each decision: dated, numbered, with its four parts, and in the index."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from tests.house.test_layout import FILES, ROOT

FOLDER = ROOT / "docs" / "adr"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PARTS = ["Context", "Alternatives", "Decision", "Consequence"]
_HEAD = re.compile(r"# (\d+)\. (\S.*)\n\nDate: (\d{4}-\d\d-\d\d)\n\n")
_ROW = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (\S+) \| (.+?) \| (.+) \|$", re.MULTILINE)


def faults(name: str, text: str) -> list[str]:
    """What a record lacks."""
    head = _HEAD.match(text)
    if head is None:
        return ["it does not begin with a number, a title and a date"]
    found = [] if name.startswith(f"{int(head[1]):04}-") else ["its number is not that of its name"]
    try:
        date.fromisoformat(head[3])
    except ValueError:
        found.append(f"{head[3]} is no date")
    if re.findall(r"^## (.+)$", text, re.MULTILINE) != PARTS:
        found.append(f"its parts are not {', '.join(PARTS)}")
    if re.search(r"^## .+\n\s*(?=## |\Z)", text, re.MULTILINE):
        found.append("a part of it is empty")
    if not 15 <= len(text.splitlines()) <= 35:
        found.append("it has not 15 to 35 lines")
    return found


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_record_is_whole(path: Path) -> None:
    assert not faults(path.name, path.read_text())


def test_numbers_are_unique_and_without_gaps() -> None:
    assert [path.name[:4] for path in RECORDS] == [f"{number:04}" for number in range(1, len(RECORDS) + 1)]


def test_the_index_has_each_record_as_it_is() -> None:
    listed = [row[:4] for row in _ROW.findall((FOLDER / "README.md").read_text())]
    heads = [(path.name, _HEAD.match(path.read_text())) for path in RECORDS]
    assert listed == [(name[:4], name, head[3], head[2]) for name, head in heads if head]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_modules_are_there(path: Path) -> None:
    named = set(re.findall(r"`(\w+\.(?:py|sql))`", path.read_text()))
    assert named <= {file.name for file in FILES}


def test_faults_are_found() -> None:
    part = "\n\nIt is so.\nAnd so.\n\n"
    whole = "# 7. A title\n\nDate: 2026-11-20\n\n" + "".join(f"## {each}{part}" for each in PARTS)
    assert not faults("0007-a-title.md", whole)
    assert faults("0008-a-title.md", whole)
    assert faults("0007-a-title.md", whole.replace("2026-11-20", "2026-13-20"))
    assert faults("0007-a-title.md", whole.replace("Date: ", "On "))
    assert faults("0007-a-title.md", whole.replace("## Decision", "## Decisions"))
    assert faults("0007-a-title.md", whole.replace(f"## Decision{part}", "## Decision\n\n"))
    assert faults("0007-a-title.md", whole + "more\n" * 20)
