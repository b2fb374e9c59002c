"""docs/architecture.md has the present rooms, and its walks name few modules each."""

from __future__ import annotations

import re

from tests.house.rooms import DOCUMENT, ROOT, printed, rooms, table
from tests.house.test_layout import FLOORS, MODULES

_WALK_MODULES_MAX = 25
_MODULE = re.compile(r"`((?:gateway|planner|storage|catalog)/[\w/]+\.(?:py|sql))`")


def test_the_table_of_rooms_is_not_stale() -> None:
    assert printed() == table(), "print it anew: python -m tests.house.rooms"


def test_every_package_is_a_room() -> None:
    packages = {str(path.parent) for path in MODULES if path.parts[0] in FLOORS and path.stem != "__init__"}
    shown = set(rooms())
    inner = {package for package in packages if any(package.startswith(f"{room}/") for room in shown)}
    assert packages - inner - set(FLOORS) <= shown


def test_a_walk_names_few_modules_and_each_is_there() -> None:
    walks = DOCUMENT.read_text().split("\n### ")[1:]
    assert len(walks) == 4
    for walk in walks:
        named = set(_MODULE.findall(walk.partition("\n## ")[0]))
        assert 8 <= len(named) <= _WALK_MODULES_MAX, walk.partition("\n")[0]
        assert all((ROOT / name).is_file() for name in named)
