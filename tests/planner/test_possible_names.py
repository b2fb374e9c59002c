"""Words of texts that may be names of tables and functions."""

from __future__ import annotations

import time

import pytest

from planner.syntax.possible_names import LENGTH_MAX, names_in, words_in

_SECONDS_MAX = 1.0  # what took the square of the length took five


def _named(text: str, *settings: str, of_tables: bool = True) -> tuple[set[str], set[str]]:
    return names_in(words_in([text], settings), of_tables=of_tables)


def test_words_are_names() -> None:
    names, qualified = _named("SELECT Id FROM item")
    assert {"item", "id", "Id"} <= names
    assert not qualified


def test_words_of_statements_are_no_tables_unless_they_are_quoted() -> None:
    assert not {"begin", "end", "update"} & _named("BEGIN UPDATE item SET n = 1; END")[0]
    assert "end" in _named('SELECT FROM "end"')[0]
    assert "begin" in _named("SELECT begin()", of_tables=False)[0]


@pytest.mark.parametrize("text", ["a.item", '"a"."item"', "a . item", 'x.a."item"', "A.Item"])
def test_names_behind_their_schemas(text: str) -> None:
    assert "a.item" in _named(f"SELECT FROM {text} WHERE true")[1]


def test_a_schema_elsewhere_is_none_of_the_names() -> None:
    assert _named("SELECT FROM item /* a */")[1] == set()


def test_search_paths_of_functions() -> None:
    assert {"a.*", "b.*"} <= _named("SELECT FROM item", 'search_path="$user", a, b')[1]
    assert not _named("SELECT FROM item", "lock_timeout=1s")[1]


@pytest.mark.parametrize("part", ["x", "x.", "x ", '"x', '"', ".", " ", "x$", "$", "x" + " " * 9, "ä", "1"])
def test_long_texts(part: str) -> None:
    began = time.thread_time()
    words_in([part * (LENGTH_MAX // len(part) + 1)], ["search_path=a, b"])
    assert time.thread_time() - began < _SECONDS_MAX
