"""A statement of a query string, and its cached facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
# Reading all words of a statement with more characters takes more than a moment.
LONG: Final = 16_384


@dataclass(frozen=True, slots=True)
class Statement:
    """The text of a statement (no semicolon) and how many characters of the query string are before it."""

    text: str
    offset: int
    first_word: str
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)


def known(asked: Callable[Concatenate[Statement, _P], _T]) -> Callable[Concatenate[Statement, _P], _T]:
    """Cache the result of a function that reads the words of a long statement, in the statement."""

    @wraps(asked)
    def answer(statement: Statement, /, *more: _P.args, **named: _P.kwargs) -> _T:
        if len(statement.text) < LONG:
            return asked(statement, *more, **named)
        question = (asked, more)
        if question not in statement.known:
            statement.known[question] = asked(statement, *more, **named)
        found: _T = statement.known[question]
        return found

    return answer
