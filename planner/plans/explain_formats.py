"""EXPLAIN's output formats for a plan's values, as PostgreSQL writes them (explain_format.c). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

FORMATS: Final = ("text", "json", "xml", "yaml")
# The name of a list's element in XML.
_ELEMENTS: Final = {"Plans": "Plan"}
_ELEMENT: Final = "Item"


def formatted(value: Mapping[str, Any], form: str) -> str:
    """Return one query's values (its plan and times) in a form that is not text."""
    if form == "xml":
        lines = "\n".join(f"  {line}" for line in _xml("Query", value))
        return f'<explain xmlns="http://www.postgresql.org/2009/explain">\n{lines}\n</explain>'
    if form == "yaml":
        return "\n".join(_yaml([value], 0))
    return json.dumps([value], indent=2, ensure_ascii=False)


def _xml(name: str, value: Any) -> Iterator[str]:
    tag = name.replace(" ", "-")
    if isinstance(value, Mapping | list | tuple):
        yield f"<{tag}>"
        parts = (
            value.items() if isinstance(value, Mapping) else ((_ELEMENTS.get(name, _ELEMENT), part) for part in value)
        )
        for inner, part in parts:
            yield from (f"  {line}" for line in _xml(inner, part))
        yield f"</{tag}>"
    else:
        yield f"<{tag}>{escape(_text(value))}</{tag}>"


def _yaml(value: Any, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(part, Mapping | list | tuple):
                yield f"{margin}{name}: "
                yield from _yaml(part, depth + 1)
            else:
                yield f"{margin}{name}: {_yaml_scalar(part)}"
        return
    for part in value:
        if isinstance(part, Mapping):
            first, *others = _yaml(part, depth + 1)
            yield f"{margin}- {first.lstrip()}"
            yield from others
        else:
            yield f"{margin}- {_yaml_scalar(part)}"


def _yaml_scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
