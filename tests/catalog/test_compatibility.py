"""The table of forward compatibility, row by row, and which changes of type widen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from catalog.datatypes import BPCHAR, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT, TIMESTAMP, UUID, VARCHAR
from catalog.schema.compatibility import COMPATIBILITY, SchemaStep, forbidding_step, widens

# As IEP-110 and 004 have it: all others forbid.
_COMPATIBLE = {
    "create table", "change policies", "change triggers",
    "replace view", "add column", "rename column", "drop not null", "widen type", "add label",
    "rename constraint",
    "drop constraint", "check constraint", "validate constraint", "publish constraint", "suspend constraint",
    "index deletes", "index writes", "fill index", "publish index", "index unread", "index unwritten", "drop index",
}  # fmt: skip


def _steps(*kinds: str) -> list[SchemaStep]:
    detail = {"from": (INT4, -1), "to": (DATE, -1)}
    return [SchemaStep(number, kind, "c", detail) for number, kind in enumerate(kinds, 1)]


def _forbidding(*kinds: str) -> str | None:
    step = forbidding_step(_steps(*kinds))
    return None if step is None else step.kind


@pytest.mark.parametrize("kind", [rule.kind for rule in COMPATIBILITY])
def test_each_kind_alone(kind: str) -> None:
    assert (_forbidding(kind) is None) == (kind in _COMPATIBLE)


def test_steps_are_judged_in_order() -> None:
    assert _forbidding() is None
    assert _forbidding("add column", "drop not null", "rename column") is None
    assert _forbidding("add column", "set default", "drop column") == "set default"


_INDEX = ("index deletes", "index writes", "fill index", "publish index")


@pytest.mark.parametrize(
    ("states", "forbidden_from"),
    [
        (("check constraint", "validate constraint", "publish constraint"), {0: 1}),
        (_INDEX, {0: 1, 1: 2}),
        (("index unread", "index unwritten", "drop index"), {0: 1, 1: 2}),
    ],
)
def test_only_neighbouring_states_go_together(states: Sequence[str], forbidden_from: dict[int, int]) -> None:
    """A transaction that was enlisted before step i may straddle steps up to j, and no further."""
    for start in range(len(states)):
        for end in range(start + 1, len(states) + 1):
            first_bad = forbidden_from.get(start)
            expected = states[first_bad] if first_bad is not None and end > first_bad else None
            assert _forbidding(*states[start:end]) == expected, states[start:end]


def test_states_of_other_elements_do_not_count() -> None:
    steps = [SchemaStep(1, "index deletes", "one"), SchemaStep(2, "index writes", "other")]
    assert forbidding_step(steps) is None


def _numeric(precision: int, scale: int) -> tuple[int, int]:
    return NUMERIC, ((precision << 16) | scale) + 4


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((INT2, -1), (INT4, -1), True),
        ((INT4, -1), (INT8, -1), True),
        ((INT8, -1), (INT4, -1), False),
        ((INT4, -1), (FLOAT8, -1), False),
        ((FLOAT4, -1), (FLOAT8, -1), True),
        ((FLOAT8, -1), (FLOAT4, -1), False),
        ((TIMESTAMP, 0), (TIMESTAMP, 3), True),
        ((TIMESTAMP, 3), (TIMESTAMP, -1), True),
        ((TIMESTAMP, -1), (TIMESTAMP, 3), False),
        (_numeric(5, 2), _numeric(7, 2), True),
        (_numeric(5, 2), _numeric(7, 4), True),
        (_numeric(5, 2), _numeric(6, 4), False),
        (_numeric(5, 2), (NUMERIC, -1), True),
        ((NUMERIC, -1), _numeric(38, 2), False),
        ((VARCHAR, 14), (VARCHAR, 24), True),
        ((VARCHAR, 24), (VARCHAR, 14), False),
        ((VARCHAR, -1), (VARCHAR, 14), False),
        ((VARCHAR, 14), (TEXT, -1), True),
        ((TEXT, -1), (VARCHAR, -1), True),
        ((INT4, -1), (VARCHAR, 4 + 11), True),
        ((INT4, -1), (VARCHAR, 4 + 10), False),
        ((UUID, -1), (VARCHAR, 4 + 36), True),
        (_numeric(5, 2), (VARCHAR, 4 + 7), True),
        (_numeric(5, 2), (VARCHAR, 4 + 6), False),
        (_numeric(2, 2), (VARCHAR, 4 + 5), True),
        (_numeric(2, 2), (VARCHAR, 4 + 4), False),
        ((DATE, -1), (TEXT, -1), False),  # its text depends on DateStyle
        ((BPCHAR, 14), (BPCHAR, 24), False),
        ((BPCHAR, 14), (VARCHAR, 14), True),
        ((TEXT, -1), (INT4, -1), False),
    ],
)
def test_which_types_widen(old: tuple[int, int], new: tuple[int, int], expected: bool) -> None:
    assert widens(old, new) is expected
    assert (forbidding_step([SchemaStep(1, "change type", "c", {"from": old, "to": new})]) is None) is expected
