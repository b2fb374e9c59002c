"""Regular expressions: ~, SIMILAR TO, and the functions that find, count, replace and split by a constant pattern."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from catalog.datatypes import TEXT
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.functions.patterns import match_extents, regular_expressions
from planner.functions.patterns.like_patterns import similar_pattern
from planner.functions.patterns.match_extents import parse_match, parse_test
from planner.functions.patterns.match_steps import search, search_for_test
from planner.functions.patterns.regular_expressions import Pattern, can_be_empty
from planner.spark.builders import Expression, and_, binary, call, case, cast, integer, not_, raise_error, raw, string
from planner.spark.literals import literal
from planner.spark.values import Value, null_value

_FLAGS: Final = frozenset({"", "i", "g", "c", "gi", "ig", "gc", "cg"})


def _read(given: Call, reader: Callable[[str, bool], Pattern], flags: str = "") -> Pattern:
    pattern = given.constant(1, "a pattern")
    if not isinstance(pattern, str):
        raise unsupported(f"{given.signature} with this pattern")
    found = reader(pattern, "i" in flags)
    if found.knows_letters:
        given.check_letters()
    return found if reader is parse_test else search(found)


def _flags(given: Call, index: int, global_allowed: bool = False) -> str:
    """Return the argument with the flags; i, c and perhaps g are supported."""
    if len(given.arguments) <= index:
        return ""
    flags = given.constant(index, "flags")
    if not isinstance(flags, str) or flags not in _FLAGS or ("g" in flags and not global_allowed):
        raise unsupported(f"{given.signature} with these flags")
    return flags


def _known(pattern: Pattern, subject: Expression, result: Expression) -> Expression:
    """Return the result, if Java is not too slow over the subject, nor too old to know which of its characters are
    letters.
    """
    if pattern.slow is not None:
        length, java = pattern.slow
        is_slow = and_(binary(">=", call("length", subject), integer(length)), call("rlike", subject, string(java)))
        refusal = raise_error("0A000", "this regular expression over so long a text is not supported on lake tables")
        result = case((is_slow, refusal), default=result)
    if not pattern.knows_letters:
        return result
    refusal = raise_error("0A000", "a regular expression over characters of a newer Unicode is not supported "
                          "on lake tables")  # fmt: skip
    return case((call("rlike", subject, string(r"\p{Cn}")), refusal), default=result)


# --- tests ---


def _test(negated: bool, insensitive: bool) -> Build:
    def build(given: Call) -> Value:
        if given.arguments[1].constant is None:
            return null_value(given.result_type)
        pattern = _read(given, parse_test, "i" if insensitive else _flags(given, 2))
        java, slow = search_for_test(pattern)
        matched = call("rlike", given.sql[0], string(java))
        pattern = replace(pattern, slow=slow)
        return given.result(_known(pattern, given.sql[0], not_(matched) if negated else matched))

    return build


def _similar(given: Call) -> Value:
    """Return the pattern of SIMILAR TO as a regular expression."""
    pattern = given.constant(0, "a pattern")
    escape = given.constant(1, "an escape") if len(given.arguments) > 1 else "\\"
    if pattern is None:
        return null_value(TEXT)
    if not isinstance(pattern, str) or not isinstance(escape, str):
        raise unsupported(f"{given.signature} with this pattern")
    return literal(similar_pattern(pattern, escape), TEXT)


# --- the match itself ---


def _group(pattern: Pattern, subject: Expression, number: int) -> Expression:
    """Return a capturing group's text, or the whole match's (0), of a subject that matches; NULL if it took no part."""
    found = call("regexp_extract", subject, string(pattern.java(capturing=True)), integer(number))
    body, certain = pattern.body, True
    for group, is_certain in match_extents.groups(pattern.body):
        if group.number == number:
            body, certain = group.body, is_certain
    if not can_be_empty(body):
        return call("nullif", found, string(""))
    if not certain:
        raise regular_expressions.refused(pattern.source)
    return found


def _matched(pattern: Pattern, subject: Expression, result: Expression) -> Expression:
    matched = call("rlike", subject, string(pattern.java()))
    return _known(pattern, subject, case((matched, result)))


def _substring(given: Call) -> Value:
    """Return the first group's text if the pattern has one; otherwise the whole match's."""
    pattern = _read(given, parse_match)
    subject = given.sql[0]
    return given.result(_matched(pattern, subject, _group(pattern, subject, min(pattern.groups, 1))))


def _whole_match(given: Call) -> Value:
    pattern = _read(given, parse_match)
    return given.result(_matched(pattern, given.sql[0], _group(pattern, given.sql[0], 0)))


def _groups(given: Call) -> Value:
    pattern = _read(given, parse_match, _flags(given, 2))
    subject = given.sql[0]
    numbers = range(1, pattern.groups + 1) or range(1)
    texts = call("array", *(_group(pattern, subject, number) for number in numbers))
    return given.result(_matched(pattern, subject, texts))


def _repeatable(given: Call, flags: str) -> Pattern:
    """Return a pattern that matches no empty text: after an empty match the two engines go on differently."""
    pattern = _read(given, parse_match, flags)
    if can_be_empty(pattern.body):
        raise unsupported(f"{given.signature} with a pattern that matches the empty text")
    return pattern


def _count(given: Call) -> Value:
    pattern = _repeatable(given, "")
    found = call("regexp_count", given.sql[0], string(pattern.java()))
    return given.result(_known(pattern, given.sql[0], found))


def _split(given: Call) -> Value:
    pattern = _repeatable(given, _flags(given, 2))
    found = call("split", given.sql[0], string(pattern.java()), raw("-1"))
    return given.result(_known(pattern, given.sql[0], found))


def _replace(given: Call) -> Value:
    replacement = given.constant(2, "a replacement")
    flags = _flags(given, 3, global_allowed=True)
    if not isinstance(replacement, str):
        raise unsupported(f"{given.signature} with this replacement")
    subject = given.sql[0]
    if "g" in flags:
        pattern = _repeatable(given, flags)
        java, wanted = pattern.java(capturing=True), _java_replacement(replacement, pattern)
    else:
        # The first match only: the shortest text before it, and the text after it, stay.
        pattern = _read(given, parse_match, flags)
        inner = pattern.java(capturing=True).removeprefix(pattern.flags)
        java = rf"{pattern.flags}\A(?<before>.*?)(?<match>{inner})(?<after>.*)\z"
        wanted = f"${{before}}{_java_replacement(replacement, pattern, '${match}')}${{after}}"
    replaced = call("regexp_replace", subject, string(java), string(wanted))
    return given.result(_known(pattern, subject, replaced))


_REPLACEMENT: Final = re.compile(r"\\([1-9&\\])|([^\\]+)", re.DOTALL)


def _java_replacement(replacement: str, pattern: Pattern, whole: str = "$0") -> str:
    """Return the replacement in Java's spelling: groups by their names, `\\&` as `whole`."""
    result, position = "", 0
    while position < len(replacement):
        found = _REPLACEMENT.match(replacement, position)
        if found is None or ((found[1] or "").isdigit() and int(found[1]) > pattern.groups):
            raise unsupported(f"the replacement {replacement!r}")
        position = found.end()
        if found[1] is None:
            result += found[2].replace("$", "\\$")
        else:
            result += {"&": whole, "\\": "\\\\"}.get(found[1], f"${{g{found[1]}}}")
    return result


def _array_of_parts(given: Call) -> Value:
    """string_to_array: parts between delimiters; of an empty text none."""
    delimiter = given.constant(1, "a delimiter")
    if not isinstance(delimiter, str) or not delimiter:
        raise unsupported(f"{given.signature} with this delimiter")
    java = "".join(map(regular_expressions.literal, delimiter))
    subject = given.sql[0]
    parts = call("split", subject, string(java), raw("-1"))
    empty = cast(call("array"), "ARRAY<STRING>")
    return given.result(case((binary("=", subject, string("")), empty), default=parts))


_T: Final = "FROM texts"
_TESTS: Final = (
    "t ~ '^a'", "t ~ 'b.$'", "t ~ '[x-z0-9]'", "t ~ '(a|b)+c?'", "t ~ '^.{3}$'", "t ~ ''", r"t ~ '\d'", r"t ~ '^\w+$'",
    r"t ~ '\s'", r"t ~ '[^\s\w]'", r"t ~ '\mb'", r"t ~ 'c\M'", r"t ~ '\yabc\y'", "t ~ '[[:alpha:]]{2}[[:digit:]]'",
    "t ~ '^[[:upper:]]+'", r"t ~ '\Aa.*?\d\Z'", "t ~ '[]x%-]'", "t ~ '€'", r"t ~ '\W'", "t ~ '^[^ä]'",
)  # fmt: skip
_EXTENTS: Final = (
    "'[a-z]+'", "'b*c'", r"'(\\w)\\s(\\w+)'", "'a(.*)'", "'(a)?(b)'", "'^(.*) (.*)$'", "'[^ ]*'", "'(ab|c)'", "'x.*?1'",
)  # fmt: skip


def _in_columns(function: str, *others: str) -> str:
    calls = (f"{function}(t, E{', '.join((pattern, *others))})" for pattern in _EXTENTS)
    return f"SELECT id, {', '.join(calls)} {_T}"


ROWS: Final[tuple[Row, ...]] = (
    row("textregexeq(text,text)", _test(False, False), f"SELECT id, {', '.join(_TESTS)} {_T}",
        f"SELECT id, t SIMILAR TO '%(b|c)_*', t SIMILAR TO '[aA]%', t SIMILAR TO 'a%c|100!%' ESCAPE '!' {_T}",
        rf"SELECT id, t ~ NULL, v ~ '^\S*$' {_T}"),
    row("textregexne(text,text)", _test(True, False), f"SELECT id, t !~ '^a', t NOT SIMILAR TO '%b%' {_T}"),
    row("texticregexeq(text,text)", _test(False, True), f"SELECT id, t ~* '^A', t ~* '[A-C]{{3}}', t ~* '[^b]' {_T}"),
    row("texticregexne(text,text)", _test(True, True), f"SELECT id, t !~* 'B' {_T}"),
    row("bpcharregexeq(bpchar,text)", _test(False, False), f"SELECT id, c ~ '^ab', c ~ ' $', c ~ 'c$' {_T}"),
    row("bpcharregexne(bpchar,text)", _test(True, False), f"SELECT id, c !~ '^ab' {_T}"),
    row("bpcharicregexeq(bpchar,text)", _test(False, True), f"SELECT id, c ~* 'B' {_T}"),
    row("bpcharicregexne(bpchar,text)", _test(True, True), f"SELECT id, c !~* 'B' {_T}"),
    row("regexp_like(text,text)", _test(False, False), rf"SELECT id, regexp_like(t, 'b\d') {_T}"),
    row("regexp_like(text,text,text)", _test(False, False), f"SELECT id, regexp_like(t, 'B', 'i') {_T}"),
    row("similar_to_escape(text)", _similar, f"SELECT id, t SIMILAR TO 'a(b|X)_*' {_T}"),
    row("similar_to_escape(text,text)", _similar, f"SELECT id, t SIMILAR TO '100#%' ESCAPE '#' {_T}"),
    row("substring(text,text)", _substring, _in_columns("substring")),
    row("regexp_substr(text,text)", _whole_match, _in_columns("regexp_substr")),
    row("regexp_match(text,text)", _groups, _in_columns("regexp_match"),
        rf"SELECT id, (regexp_match(t, '(\w)(\d+)$'))[2] {_T}"),
    row("regexp_match(text,text,text)", _groups, f"SELECT id, regexp_match(t, '(B+)', 'i') {_T}"),
    row("regexp_count(text,text)", _count, f"SELECT id, regexp_count(t, '[a-c]'), regexp_count(t, 'b+') {_T}"),
    row("regexp_split_to_array(text,text)", _split, rf"SELECT id, regexp_split_to_array(t, '\s+'), "
        f"regexp_split_to_array(t, '[bc]') {_T}"),
    row("regexp_split_to_array(text,text,text)", _split, f"SELECT id, regexp_split_to_array(t, 'B', 'i') {_T}"),
    row("string_to_array(text,text)", _array_of_parts, f"SELECT id, string_to_array(t, ' '), string_to_array(t, 'b') "
        f"{_T}", rf"SELECT id, string_to_array(t, '%'), string_to_array(t, '.'), string_to_array(t, '\y') {_T}"),
    row("regexp_replace(text,text,text)", _replace, _in_columns("regexp_replace", r"'<\\&$>'"),
        rf"SELECT id, regexp_replace(t, '^\s*(\w)', '[\1]'), regexp_replace(t, '^', '>'), regexp_replace(t, '$', '.') "
        rf"{_T}"),
    row("regexp_replace(text,text,text,text)", _replace,
        f"SELECT id, regexp_replace(t, '[^a-z]', '$', 'g'), regexp_replace(t, 'b+', '', 'g') {_T}",
        rf"SELECT id, regexp_replace(t, '([A-C])', '<\1\\>', 'gi'), regexp_replace(t, '\W+', ' ', 'g'), "
        rf"regexp_replace(t, '(\w)(\w)', '\2\1', 'g'), regexp_replace(t, 'B', 'x', 'i') {_T}"),
)  # fmt: skip
