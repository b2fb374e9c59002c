"""docs/glossary.md has each term once, in order, with an existing module."""

from __future__ import annotations

import re
from pathlib import Path

from tests.house.test_layout import FILES, FLOORS, ROOT

ROWS = re.findall(
    r"^\| (?!term \|)([^|]*[^| -]) \| (\S[^|]*) \| `([\w.]+)`(?: \((\w+)\))? \|$",
    (ROOT / "docs" / "glossary.md").read_text(),
    re.MULTILINE,
)
_PLACES = {(path.name, room) for path in FILES for room in ("", path.parts[0])}


def _name(term: str) -> str:
    """Without what tells two meanings of a word apart."""
    return re.sub(r" \(.*\)", "", term).lower()


def test_each_line_is_a_term() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    assert len(ROWS) == sum(line.startswith("| ") for line in lines) - 1 > 50


def test_each_term_is_there_once_and_in_order() -> None:
    terms = [term.lower() for term, _, _, _ in ROWS]
    assert terms == sorted(set(terms))


def test_a_term_of_two_meanings_says_which() -> None:
    names = [_name(term) for term, _, _, _ in ROWS]
    assert [term for term, _, _, _ in ROWS if names.count(_name(term)) > 1 and "(" not in term] == []


def test_modules_are_there() -> None:
    assert [row for row in ROWS if (row[2], row[3]) not in _PLACES] == []


def test_a_module_of_several_floors_says_which() -> None:
    floors = {name: {path.parts[0] for path in FILES if path.name == name} & set(FLOORS) for _, _, name, _ in ROWS}
    assert [name for _, _, name, floor in ROWS if not floor and len(floors[name]) > 1] == []


def test_what_docs_introduce_is_a_term() -> None:
    """A word in italics is introduced there: in the docs that explain how Sluice works."""
    terms = {word for term, _, _, _ in ROWS for word in re.split(r"[ ,]+", _name(term))}
    known = {form for word in terms for form in (word, f"{word}s", f"{word}ed", word.replace("ment", "ed"))}
    for name in ("transactions.md", "schema-changes.md", "indexes.md", "maintenance.md", "operations.md", "sql.md"):
        text = Path(ROOT / "docs" / name).read_text()
        for introduced in re.findall(r"(?<!\*)\*([A-Za-z][a-z ]*)\*(?!\*)", text):
            assert set(introduced.lower().split()) <= known | {"it"}, (name, introduced)
