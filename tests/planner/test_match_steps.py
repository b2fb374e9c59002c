"""Patterns as Java gets them: which it looks for in steps of the text's length, and over which texts it is too slow."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from catalog.errors import SluiceError
from planner.functions.patterns.match_extents import parse_match, parse_test
from planner.functions.patterns.match_steps import search, search_for_test


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("foo.*bar", r"(?s)\A(?>.*?foo)(?>.*?bar)"),
        ("^foo.+bar$", r"(?s)\Afoo..*bar\z"),
        (".*.*.*.*x", "(?s)x"),
        ("[a-z]*[a-z]*1", "(?s)1"),
        ("(ab)+c", "(?s)abc"),
        (r"\d+\.\d+", r"(?s)[0-9]\.[0-9]"),
        ("(error|fail).*x", r"(?s)\A(?>.*?(?:error|fail))(?>.*?x)"),
        ("a.*b|c.*d", r"(?s)(?:\A(?>.*?a)(?>.*?b)|\A(?>.*?c)(?>.*?d))"),
        ("", "(?s)"),
        ("b*|a", "(?s)|a"),
    ],
)
def test_tests_in_steps_of_the_text(pattern: str, java: str) -> None:
    assert search_for_test(parse_test(pattern)) == (java, None)


def test_a_part_that_may_end_earlier_is_no_place_to_stop() -> None:
    # Of "abc", ab ends behind a, from where c.* would match no more if a were wanted.
    java, slow = search_for_test(parse_test("(ab|a).*c"))
    assert java == "(?s)(?:ab|a).*c"
    assert slow is not None


@pytest.mark.parametrize(
    ("pattern", "text", "is_slow"),
    [
        ("a[a-z]*1", r"(?s)(?<![[a-z]])(?:[[[a-z]]&&[^[a]]]*+[[[a-z]]&&[a]]){1000}", True),
        ("x.*?1", r"(?s)(?<!.)(?:[^[x]]*+[x]){1000}", True),
        ("[^ ]*", "", False),
        ("a(.*)", "", False),
        ("^(.*) (.*)$", "", False),
        ('"a":"([^"]*)"', "", False),
        (r"(\d+)-(\d+)$", "", False),
    ],
)
def test_texts_over_which_it_is_too_slow(pattern: str, text: str, is_slow: bool) -> None:
    slow = search(parse_match(pattern)).slow
    assert (slow is not None) is is_slow
    assert slow is None or slow == (1000, text)


def test_a_leading_loop_begins_where_its_run_does() -> None:
    assert search(parse_match("[a-z]+[0-9]+x")).java() == r"(?s)(?:(?<![a-z])|\G)(?:[a-z]+[0-9]+x)"


@pytest.mark.parametrize("pattern", ["x[a-z]*[a-z]*[a-z]*1", "a?" * 12 + "b", "(a|b|ab){1,9}c"])
def test_patterns_that_are_slow_over_any_text(pattern: str) -> None:
    with pytest.raises(SluiceError, match="is not supported on lake tables"):
        search_for_test(parse_test(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "x.*a{1,255}",
        f"x.*({'|'.join('a{255}' * (1 + number % 3) + 'b' for number in range(60))})",
        "a{255}" * 600 + ".*x",
        f"({'abcdefgh' * 200}){{255,}}x",
        "(a|" * 800 + "b" + ")" * 800 + ".*x",
        "(" * 800 + "a" + "b)*" * 800 + "c",
    ],
)
def test_a_pattern_is_read_in_a_moment(pattern: str) -> None:
    """Short patterns are read on the event loop; some took 14 seconds."""
    begun = time.process_time()
    with suppress(SluiceError):
        search_for_test(parse_test(pattern))
    assert time.process_time() - begun < 0.2
