"""docs/refusals.md lists exactly the refusals of the source, each with an alternative."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.test_layout import FLOORS, MODULES, ROOT

DOCUMENT = ROOT / "docs" / "refusals.md"
_SUFFIX = "is not supported on lake tables"
_LINE = re.compile(r"^\| (?P<refused>.+?) \| (?P<instead>.+) \|$")


def refusals(source: str) -> set[str]:
    """The messages of `unsupported(…)` and of what Spark raises; `…` stands for what a value puts in."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = _called(node.func)
        if called == "unsupported":
            found |= _texts(node.args[0])
        elif called in {"raise_error", "raise_error_about"} and _texts(node.args[0]) == {"0A000"}:
            found |= {each.removesuffix(_SUFFIX).strip() for each in _texts(node.args[1])}
    return found


def _called(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _texts(message: ast.expr) -> set[str]:
    if isinstance(message, ast.Constant):
        return {str(message.value)}
    if isinstance(message, ast.JoinedStr):
        return {"".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in message.values)}
    if isinstance(message, ast.IfExp):
        return _texts(message.body) | _texts(message.orelse)
    return {f"`{ast.unparse(message)}`"}


def listed() -> dict[str, dict[str, str]]:
    """Module → refusal → what to do instead."""
    found: dict[str, dict[str, str]] = {}
    module = ""
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("### "):
            module = line.removeprefix("### ").strip("`")
        elif module and (each := _LINE.match(line)) and each["refused"] not in {"refused", "---"}:
            found.setdefault(module, {})[each["refused"].replace("\\|", "|")] = each["instead"].strip()
    return found


def of_source() -> dict[str, set[str]]:
    found = {str(path): refusals((ROOT / path).read_text()) for path in MODULES if path.parts[0] in FLOORS}
    return {module: texts for module, texts in found.items() if texts and Path(module).name != "errors.py"}


def test_every_refusal_is_listed() -> None:
    document = listed()
    missing = {
        module: unlisted
        for module, texts in of_source().items()
        if (unlisted := {each for each in texts if each not in document.get(module, {})})
    }
    assert not missing, missing


def test_nothing_is_listed_that_the_source_does_not_say() -> None:
    source = of_source()
    assert source
    gone = {
        module: extra
        for module, texts in listed().items()
        if (extra := {each for each in texts if each not in source.get(module, set())})
    }
    assert not gone, gone


def test_each_says_what_to_do_instead() -> None:
    for module, texts in listed().items():
        for refused, instead in texts.items():
            assert len(instead) > 8, (module, refused)


def test_messages_are_read_in_every_form() -> None:
    source = """
raise unsupported("one")
raise errors.unsupported(f"two {name} of {other!r}", hint="h")
raise unsupported("three" if name else f"four {name}")
raise unsupported(CONSTANT)
raise_error("0A000", f"five of {name} is not supported on lake tables")
raise_error("22003", "six")
"""
    assert refusals(source) == {"one", "two … of …", "three", "four …", "`CONSTANT`", "five of …"}
