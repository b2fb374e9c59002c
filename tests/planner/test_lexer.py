"""Tokens have the places that PostgreSQL's own lexer gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.syntax.lexer import Kind, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", ["select", "1"]),
        ("SELECT a.b, $1", ["select", "a", ".", "b", ",", "$1"]),
        ("'it''s' \"a\"\"b\"", ["'it''s'", 'a"b']),
        (r"E'\';' x", [r"E'\';'", "x"]),
        (r"'\' ;", [r"'\'", ";"]),
        ("$$;$$ $t$ $$ $t$", ["$$;$$", "$t$ $$ $t$"]),
        ("a -- b ; c\n+ /* ; /* ; */ ; */ d", ["a", "+", "d"]),
        ("1.5e-3 .5 1..2 0x1F 1_000", ["1.5e-3", ".5", "1", ".", ".2", "0x1F", "1_000"]),
        ("U&'d\\0061' U&\"x\"", ["U&'d\\0061'", "x"]),
    ],
)
def test_texts(text: str, expected: list[str]) -> None:
    assert [token.text for token in tokens(text)] == expected


def test_backslashes_escape_where_strings_are_not_standard() -> None:
    assert [token.text for token in tokens(r"'\';' x", standard_strings=False)] == [r"'\';'", "x"]


def test_depth_is_that_outside_of_a_parenthesis() -> None:
    assert [(token.text, token.depth) for token in tokens("a (b (c) d) e")] == [
        ("a", 0), ("(", 0), ("b", 1), ("(", 1), ("c", 2), (")", 1), ("d", 1), (")", 0), ("e", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["'open", '"open', "$$open", "/* open", "E'open\\'"])
def test_what_is_open_ends_with_the_text(text: str) -> None:
    found = list(tokens(text))
    assert all(token.unterminated and token.end == len(text) for token in found)
    assert bool(found) == (not text.startswith("/*"))


@given(st.text(alphabet="ab1;'\"$/*-()Ee\\ \n.&U", max_size=60))
def test_every_token_stands_in_the_text_in_order(text: str) -> None:
    place = 0
    for token in tokens(text):
        assert place <= token.start < token.end <= len(text)
        assert token.kind is not Kind.SYMBOL or text[token.start : token.end] == token.text
        place = token.end
