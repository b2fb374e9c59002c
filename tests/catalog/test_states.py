"""The table of states: its checks at import, and its functions."""

from __future__ import annotations

from itertools import pairwise

import pytest

from catalog.schema.states import (
    PATHS,
    RULE_OF,
    WORK_OF,
    Direction,
    Element,
    State,
    Work,
    diagram,
    path,
    step,
    undo_path,
)


def test_paths_are_those_of_the_design() -> None:
    words = {
        (work.value, direction.value): " → ".join(state.name for state in states)
        for (work, direction), states in PATHS.items()
    }
    assert words == {
        ("schema only", "adding"): "ABSENT → CREATED → PUBLIC",
        ("schema only", "removing"): "PUBLIC → CREATED → ABSENT",
        ("data validation", "adding"): "ABSENT → CHECK → VALIDATE → PUBLIC",
        ("data validation", "removing"): "PUBLIC → CHECK → ABSENT",
        ("data reorganisation", "adding"): "ABSENT → DELETE → WRITE → REORG → PUBLIC",
        ("data reorganisation", "removing"): "PUBLIC → WRITE → DELETE → ABSENT",
    }


@pytest.mark.parametrize("element", Element)
def test_every_step_of_every_path_is_in_the_table(element: Element) -> None:
    for direction in Direction:
        for before, after in pairwise(PATHS[WORK_OF[element], direction]):
            assert step(element, before, after).element is element


@pytest.mark.parametrize("element", Element)
def test_a_change_that_fails_goes_back_the_way_it_came(element: Element) -> None:
    adding = PATHS[WORK_OF[element], Direction.ADDING]
    for number, reached in enumerate(adding[:-1]):
        back = undo_path(element, reached, State.ABSENT)
        assert back == adding[number::-1]
        for before, after in pairwise(back):
            step(element, before, after)
    assert undo_path(element, adding[1], adding[1]) == (adding[1],)


def test_what_was_there_before_is_where_a_path_begins() -> None:
    assert path(Element.CONSTRAINT, State.CHECK) == (State.CHECK, State.VALIDATE, State.PUBLIC)


def test_no_state_is_skipped() -> None:
    with pytest.raises(KeyError):
        step(Element.INDEX, State.ABSENT, State.WRITE)


def test_readers_rely_on_nothing_but_public() -> None:
    assert [state for state in State if RULE_OF[state].rely] == [State.PUBLIC]


def test_the_diagram_has_every_state_of_every_path() -> None:
    drawn = diagram()
    for work in Work:
        for state in PATHS[work, Direction.ADDING]:
            assert f"{work.value.replace(' ', '_')}_{state}" in drawn
