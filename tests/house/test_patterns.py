"""Patterns take no state for each character of a text: a client may send hundreds of megabytes.

One match holds the interpreter until it ends, and without possessive quantifiers keeps some hundred bytes for each
round of a repeated alternative.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import pytest

from planner.functions.number_templates import _TEMPLATE
from planner.spark.plan import _SCAN_NAME
from planner.tree.datum import _array_items
from storage.spark.spark_errors import _CONDITION_TEXT, _STRING, _outside_parentheses
from tests.house.test_layout import FLOORS, MODULES

_LENGTH: Final = 10_000_000
# Of this thread; a third of it is enough, and what is found here took more than ten times as long.
_SECONDS_MAX: Final = 0.3
_LOOPS: Final = ("MAX_REPEAT", "MIN_REPEAT")
_STATES: Final = frozenset({"BRANCH", "ASSERT", "ASSERT_NOT", *_LOOPS})
# Callers cut what these are given (planner/tree/long_tokens.py), or the length of their message is limited.
_BOUNDED: Final = frozenset(
    {"planner.tree.nodes._TOKEN", "planner.tree.nodes._CONST", "gateway.wire.scram._CLIENT_FINAL"}
)


def _patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for path in MODULES:
        if path.parts[0] in FLOORS and path.name != "__init__.py":
            name = ".".join(path.with_suffix("").parts)
            module = import_module(name)
            for key, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    yield f"{name}.{key}", value


def _endless(parsed: Any) -> Iterator[str]:
    """Loops without an end that keep something for each round."""
    for kind, argument in parsed:
        if str(kind) in _LOOPS:
            _, most, body = argument
            if str(most) == "MAXREPEAT" and any(str(each) in _STATES for each, _ in _all(body)):
                yield str(kind)
            yield from _endless(body)
        else:
            yield from (loop for part in _parts(argument) for loop in _endless(part))


def _all(parsed: Any) -> Iterator[tuple[Any, Any]]:
    for kind, argument in parsed:
        yield kind, argument
        yield from (each for part in _parts(argument) for each in _all(part))


def _parts(argument: Any) -> Iterator[Any]:
    if type(argument).__name__ == "SubPattern":
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _parts(each)


def _loops(pattern: str | bytes) -> list[str]:
    return list(_endless(re._parser.parse(pattern)))  # type: ignore[attr-defined]


def test_no_pattern_keeps_something_for_each_character() -> None:
    assert {name for name, pattern in _patterns() if _loops(pattern.pattern)} <= _BOUNDED


@pytest.mark.parametrize("pattern", [r"(?:(?!x).|\n)*?y", r"'(?:[^'\\]|\\.)*'", r"((?:ab|cd)e)+"])
def test_one_would_be_found(pattern: str) -> None:
    assert _loops(pattern)


@pytest.mark.parametrize("pattern", [r"'[^'\\]*+(?:\\.[^'\\]*+)*+'", r"[ab]*c", r"(?:a|b){0,1000}"])
def test_others_are_fine(pattern: str) -> None:
    assert not _loops(pattern)


@pytest.mark.parametrize("filler", ["x", r"\'", r"\"", "(", ")", " ", "0", "[A"])
def test_megabytes_of_a_clients(filler: str) -> None:
    text = filler * (_LENGTH // len(filler))
    for search in (
        lambda: _array_items(f'{{"{text}"}}'),
        lambda: _SCAN_NAME.sub("", f"'{text}'"),
        lambda: _STRING.sub("", f"'{text}'"),
        lambda: _CONDITION_TEXT.search(f"[DIVIDE_BY_ZERO] {text}"),
        lambda: _CONDITION_TEXT.search(f"[{text}"),
        lambda: _TEMPLATE.fullmatch(f"{text}x"),
    ):
        began = time.thread_time()
        search()
        assert time.thread_time() - began < _SECONDS_MAX


@pytest.mark.parametrize(
    ("text", "left"), [("a(b(c)d)e", "ae"), ("(a", "(a"), (")a(b)", ")a"), ("((a)", "("), ("", ""), ("x(y)(z", "x(z")]
)
def test_what_stands_outside_of_parentheses(text: str, left: str) -> None:
    assert _outside_parentheses(text) == left
