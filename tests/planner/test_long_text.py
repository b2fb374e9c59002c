"""A text has the same tokens, wherever the pieces end in which it is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.syntax.lexer import Token, tokens
from planner.tree import long_text

_PARTS = (
    "'", "''", "\\", "\\'", '"', '""', "$", "$$", "$a$", "$1", "a", "E'", "u&'", 'U&"', "--", "\n", " ", "/*", "*/", "/",
    "*", "(", ")", ";", "1", ".", "1e5", "é", "select", "b'", "_",
)  # fmt: skip


def _tokens(text: str, find: int, match: int, *, standard: bool) -> list[Token]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "_FIND", find)
        patch.setattr(long_text, "_MATCH", match)
        return list(tokens(text, standard_strings=standard))


@given(st.lists(st.sampled_from(_PARTS), max_size=30).map("".join), st.booleans())
def test_pieces_make_no_difference(text: str, standard: bool) -> None:
    whole = _tokens(text, 1 << 20, 1 << 16, standard=standard)
    for find, match in ((1, 2), (2, 3), (5, 4)):
        assert _tokens(text, find, match, standard=standard) == whole


@pytest.mark.parametrize("word", ["pg_export_snapshot", "x"])
def test_a_word_is_found_wherever_it_stands(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr(long_text, "_FIND", 7)
    for before in range(20):
        assert long_text.holds_word("." * before + word.upper() + "...", word)
        assert not long_text.holds_word("." * before + word.upper()[1:] + "...", word)
        assert long_text.find("." * before + word + "..", word) == before
    assert long_text.count("a.b.c" * 10, ".") == 20
