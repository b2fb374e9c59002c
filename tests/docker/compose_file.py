"""docker/compose.yaml as it reads: what each service is started with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

PATH: Final = Path(__file__).parents[2] / "docker" / "compose.yaml"
FILE: Final[dict[str, Any]] = yaml.safe_load(PATH.read_text())
SERVICES: Final[dict[str, dict[str, Any]]] = FILE["services"]
_VARIABLE: Final = re.compile(r"\$\{(\w+):-([^}]*)\}")


def _replaced(text: str, places: Mapping[str, str]) -> str:
    """The text with `places` for what containers have, and with variables that are in `places` or have a default."""
    text = _VARIABLE.sub(lambda found: places.get(f"${found[1]}", found[2]), text)
    longest_first = sorted((old for old in places if not old.startswith("$")), key=len, reverse=True)
    if not longest_first:
        return text
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: places[found[0]], text)


def command(service: str, places: Mapping[str, str]) -> list[str]:
    """Entry point and arguments of a service, as far as the file has them. `places` are other places, by those of
    containers, and values of variables, by their names after a `$`."""
    parts = [*SERVICES[service].get("entrypoint", []), *SERVICES[service].get("command", [])]
    return [_replaced(part, places) for part in parts]


def environment(service: str, places: Mapping[str, str]) -> dict[str, str]:
    """The environment that a service adds."""
    return {name: _replaced(value, places) for name, value in SERVICES[service].get("environment", {}).items()}
