"""No error's text leads to a retry: its class and its SQLSTATE decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("catalog", "storage", "planner", "gateway")
# What gives an error's text, as an attribute of it, or called with it.
_ATTRIBUTES = {"message", "args", "strerror", "detail", "desc"}
_CALLS = {"str", "repr", "format"}
_FAULT = """
while True:
    try:
        commit()
    except Exception as error:
        if "conflict" in str(error):
            continue
"""


def test_no_loop_goes_on_by_the_text_of_an_error() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in _texts_that_decide(ast.parse(path.read_text()))
    }
    assert not found


def test_one_would_be_found() -> None:
    assert len(list(_texts_that_decide(ast.parse(_FAULT)))) == 1


def _texts_that_decide(tree: ast.AST) -> Iterator[ast.expr]:
    """The conditions, in handlers of errors in loops, that look at the text of what was caught."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For | ast.AsyncFor)]
    handlers = {node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.ExceptHandler) and node.name}
    for handler in handlers:
        for node in ast.walk(handler):
            decides = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else None
            decides = node.subject if isinstance(node, ast.Match) else decides
            if decides is not None and any(_gives_text(part, handler.name or "") for part in ast.walk(decides)):
                yield decides


def _gives_text(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=of), attr=attribute):
            return of == name and attribute in _ATTRIBUTES
        case ast.Call(func=ast.Name(id=function), args=[ast.Name(id=of), *_]):
            return of == name and function in _CALLS
        case _:
            return False
