"""Minimise a failing query: try every simplifying step, and keep each after which it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar, cast

from tests.answers.queries import Query, tidy
from tests.answers.tree import Node, reductions

Subject = TypeVar("Subject", bound=Hashable)


def shrunk(
    subject: Subject,
    simpler: Callable[[Subject], Iterator[Subject]],
    fails: Callable[[Subject], bool],
    seconds: float = 120.0,
) -> Subject:
    """The smallest that is found in the time. Nothing is tried twice.

    After a step it goes on with what comes next, not from the start: what failed before will fail again, most often.
    """
    deadline = time.monotonic() + seconds
    tried = {subject}
    place, left_to_fail = 0, 1
    while left_to_fail > 0:
        candidates = list(simpler(subject))
        left_to_fail = len(candidates)
        for number in range(len(candidates)):
            candidate = candidates[(place + number) % len(candidates)]
            left_to_fail -= 1
            if time.monotonic() > deadline:
                return subject
            if candidate not in tried:
                tried.add(candidate)
                if fails(candidate):
                    subject, place, left_to_fail = candidate, place + number, 1
                    break
    return subject


def simpler_statements(statement: Node) -> Iterator[Node]:
    """The tree a step simpler, with an answer that is as certain."""
    for each in reductions(statement):
        yield tidy(each)


def simpler_queries(query: Query) -> Iterator[Query]:
    for each in simpler_statements(query):
        yield cast(Query, each)
