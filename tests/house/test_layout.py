"""The layout of the code: the places of files, their length, and their names."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = ("catalog", "storage", "planner", "gateway")
DOCUMENTS = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
TOP_LEVEL = {*FLOORS, *DOCUMENTS, "bench", "docker", "docs", "tests", "pyproject.toml", "requirements.lock"}
LINES_MAX = 500
MODULES_MAX = 25  # of a package, its `__init__` left out
# A module is named after the one concept in it; these name none.
NAMES_WITHOUT_CONCEPT = {"base", "common", "core", "helper", "helpers", "manager", "misc", "stuff", "util", "utils"}


def files() -> list[Path]:
    """Every file of the project, whether it is committed yet or not; relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in sorted(set(listed.split("\0"))) if name and (ROOT / (path := Path(name))).is_file()]


FILES = files()
MODULES = [path for path in FILES if path.suffix == ".py"]


def test_the_top_level_has_nothing_new() -> None:
    top = {path.parts[0] for path in FILES}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL
    assert set(FLOORS) <= top


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_holds_one_concept(module: Path) -> None:
    lines = len((ROOT / module).read_text().splitlines())
    assert lines <= LINES_MAX, f"{module} has {lines} lines: it is asking to be two"
    words = set(module.stem.split("_"))
    assert not words & NAMES_WITHOUT_CONCEPT, f"{module} is named after no concept"


@pytest.mark.parametrize("package", sorted({path.parent for path in MODULES if path.parts[0] in FLOORS}), ids=str)
def test_a_package_is_one_room(package: Path) -> None:
    modules = [path for path in MODULES if path.parent == package and path.stem != "__init__"]
    assert len(modules) <= MODULES_MAX, f"{package} has {len(modules)} modules: it is asking to be two"
    assert ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())), "nothing says what it is for"


def test_calls_with_the_gateways_rights_have_one_home() -> None:
    homes = {Path("gateway/backend/catalog_calls.py"), Path("gateway/backend/own_message.py")}
    others = [path for path in MODULES if path.parts[0] == "gateway" and path not in homes]
    assert not [str(path) for path in others if re.search(r"(?<!\w)own\(", (ROOT / path).read_text())]


def test_savepoints_have_one_home() -> None:
    home = Path("gateway/backend/savepoints.py")
    written = re.compile(r"[\"'](?:SAVEPOINT|ROLLBACK TO SAVEPOINT|RELEASE SAVEPOINT) ?\{")
    assert written.search((ROOT / home).read_text()) is not None
    others = [path for path in MODULES if path.parts[0] == "gateway" and path != home]
    assert not [str(path) for path in others if written.search((ROOT / path).read_text())]


def test_packages_hold_only_what_belongs_to_a_floor() -> None:
    """A floor's folders are packages, so that import-linter and mypy see every module."""
    for module in MODULES:
        if module.parts[0] in FLOORS:
            for folder in list(module.parents)[:-1]:
                assert (ROOT / folder / "__init__.py").is_file(), f"{folder} has no __init__.py"


@pytest.mark.parametrize("lock", [path for path in FILES if path.suffix == ".lock"], ids=str)
def test_locks_pin_everything_and_name_no_index(lock: Path) -> None:
    text = (ROOT / lock).read_text()
    assert "/" not in re.sub(r"^#.*$", "", text, flags=re.MULTILINE), "a path or an address"
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert all(re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", pin) for pin in pins)
    assert text.count("--hash=sha256:") >= len(pins) > 10


def test_sources_leave_nothing_for_later() -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX+|HACK)\b")
    for module in MODULES:
        if module.parts[0] in FLOORS:
            assert not later.search((ROOT / module).read_text()), f"{module} leaves something for later"
