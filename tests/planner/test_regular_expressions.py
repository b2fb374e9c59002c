"""The constant patterns that are accepted, for a test and for a match; the allow-list's probes check their meaning."""

from __future__ import annotations

import pytest

from catalog.errors import SluiceError
from planner.functions.patterns.match_extents import parse_match, parse_test
from planner.functions.patterns.regular_expressions import parse

MATCHED = {
    "": "(?s)",
    "a.c": "(?s)a.c",
    "^a+$": r"(?s)\Aa+\z",
    "[^a-c]{2,}": "(?s)[^a-c]{2,}",
    "(a|b)*c": "(?s)(?:a|b)*+c",
    r"\d+\.\d{2}": r"(?s)[0-9]+\.[0-9]{2}",
    "a(.*)": "(?s)a(?:.*)",
    "^(.*)-(.*)$": r"(?s)\A(?:.*)\-(?:.*)\z",
    "x.*?y": "(?s)x.*?y",
}
# Two ways to match, of which PostgreSQL takes the longer and Java the first.
TESTED_ONLY = ("a|ab", "a?(ab)?", "^(.*)-(.*)", "(a|ab)(c|bcd)")
REFUSED = (
    r"(a)\1", "(?=a)", "(?!a)", "a**", "^*", "*a", "a{256}", "a{2,2}", "a{0}", "a{", "(a", "a)", "(|a)", "a|", "[[.a.]]",
    "[[=a=]]", "[b-a]", r"[\D]", r"\x41", r"\u0041", "***=a", "(?i)a", "(a*)*", "[a", "[[:nothing:]]", r"a\q",
)  # fmt: skip


@pytest.mark.parametrize("pattern", MATCHED)
def test_the_match_of_these_is_certain(pattern: str) -> None:
    assert parse_match(pattern).java() == MATCHED[pattern]


@pytest.mark.parametrize("pattern", TESTED_ONLY)
def test_of_these_only_whether_they_match_is_certain(pattern: str) -> None:
    parse_test(pattern)
    with pytest.raises(SluiceError, match="the regular expression"):
        parse_match(pattern)


@pytest.mark.parametrize(
    "pattern", ["(ab|a)*b", "(.+)+b", r"(ab)*\M", "(ab)*^", "(ab)*?c", "((a{1,40}b){1,40}c){1,40}"]
)
def test_loops_that_could_fill_the_stack_are_refused(pattern: str) -> None:
    parse(pattern)
    with pytest.raises(SluiceError, match="the regular expression"):
        parse_test(pattern)


@pytest.mark.parametrize("pattern", REFUSED)
def test_all_else_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(SluiceError, match="the regular expression") as caught:
        parse(pattern)
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize("pattern", ["ä", "[ä-ü]", "[[:upper:]]"])
def test_letters_outside_ascii_have_no_other_case(pattern: str) -> None:
    parse(pattern)
    with pytest.raises(SluiceError):
        parse(pattern, insensitive=True)
