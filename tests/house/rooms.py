"""The rooms in docs/architecture.md, printed from the packages: `python -m tests.house.rooms` writes the table anew."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs" / "architecture.md"
_BEGIN, _END = "<!-- rooms: printed from the packages -->", "<!-- end of rooms -->"
# Those of `catalog` import each other's neighbours only, so that no contract orders them.
_CATALOG: Final = ("maintenance", "schema", "postgres")


def _layers(container: str) -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(list(each["layers"]) for each in contracts if each.get("containers") == [container])


def _packages(container: str, layers: list[str]) -> list[str]:
    folders = [f"{container}/{layer}" for layer in layers]
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def rooms() -> list[str]:
    """Every package, from the commands down to the catalog, in the order in which imports may go."""
    found: list[str] = []
    for folder in _packages("gateway", _layers("gateway")):
        found.append(folder)
        if folder == "gateway/execution":
            found += _packages(folder, _layers("gateway.execution"))
    found += _packages("planner", _layers("planner")) + _packages("storage", _layers("storage"))
    return found + _packages("catalog", list(_CATALOG))


def table() -> str:
    """The rows: room, what it is for, how many modules it has."""
    lines = ["| room | what it is for | modules |", "|---|---|---|"]
    for room in rooms():
        purpose = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
        count = sum(path.stem != "__init__" for path in (ROOT / room).glob("*.py"))
        lines.append(f"| `{room}` | {_first(purpose)} | {count} |")
    return "\n".join(lines)


def _first(docstring: str) -> str:
    """Its first paragraph, in one line."""
    return docstring.partition("\n\n")[0].replace("\n", " ")


def between(document: Path, begin: str, end: str) -> str:
    """What a document has between two marks."""
    return document.read_text().partition(begin)[2].partition(end)[0].strip()


def write_between(document: Path, begin: str, end: str, text: str) -> None:
    """Write text between two marks of a document."""
    before, _, rest = document.read_text().partition(begin)
    after = rest.partition(end)[2]
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def printed() -> str:
    """The table as it stands in the document."""
    return between(DOCUMENT, _BEGIN, _END)


if __name__ == "__main__":
    write_between(DOCUMENT, _BEGIN, _END, table())
