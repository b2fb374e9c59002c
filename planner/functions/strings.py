"""text, varchar, char: concatenation, parts, searching, and LIKE."""

from __future__ import annotations

from typing import Final

from catalog.datatypes import BOOL, BPCHAR
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.functions.casts import on, to_text
from planner.functions.patterns.like_patterns import like_pattern, regular_expression
from planner.spark.builders import (
    Expression,
    binary,
    call,
    case,
    cast,
    is_not_null,
    is_simple,
    not_,
    raise_error,
    raw,
    string,
)
from planner.spark.values import Value


def _function(name: str) -> Build:
    return lambda given: given.result(call(name, *given.sql))


def _texts(given: Call) -> list[Expression]:
    return [_as_text(value, given) for value in given.arguments]


def _as_text(value: Value, given: Call) -> Expression:
    return to_text(value, given.session)


def _concatenation(given: Call) -> Value:
    """`||`: NULL if either side is. PostgreSQL has cast a char(n) to text, unless the other side is unknown."""
    sides = []
    for value in given.arguments:
        if value.type_oid == BPCHAR:
            raise unsupported(f"{given.signature} of a character")
        # anytextcat and textanycat cast to text, where a boolean is `true`, not `t`.
        sides.append(cast(value.sql, "STRING") if value.type_oid == BOOL else _as_text(value, given))
    return given.result(call("concat", *sides))


def _concat(given: Call) -> Value:
    return given.result(call("concat", *(call("coalesce", text, string("")) for text in _texts(given)), string("")))


def _concat_ws(given: Call) -> Value:
    return given.result(call("concat_ws", *_texts(given)))


# --- case ---

# Characters that Java maps to several, or by context; PostgreSQL's C.UTF-8 maps each to one or leaves it.
_UPPER_SPECIAL: Final = "[\u00df\u0149\u01f0\u0390\u03b0\u0587\u1e96-\u1e9a\u1f50-\u1ffc\ufb00-\ufb17]"
_LOWER_SPECIAL: Final = "[\u0130\u03a3]"


def _cased(function: str, special: str) -> Build:
    def build(given: Call) -> Value:
        given.check_letters()
        return given.result(on(given.sql[0], lambda sql: cased(function, special, sql)))

    return build


def cased(function: str, special: str, sql: Expression) -> Expression:
    refusal = raise_error("0A000", f"{function}() of a character that has several forms is not supported "
                          "on lake tables")  # fmt: skip
    return case((call("rlike", sql, string(special)), refusal), default=call(function, sql))


def lowered(sql: Expression) -> Expression:
    return cased("lower", _LOWER_SPECIAL, sql)


# --- parts ---


def _substring(given: Call) -> Value:
    text, start, *rest = given.arguments
    if isinstance(start.constant, int) and start.constant >= 1:
        if not rest:
            return given.result(call("substring", text.sql, start.sql))
        if isinstance(rest[0].constant, int) and rest[0].constant >= 0:
            return given.result(call("substring", text.sql, start.sql, rest[0].sql))
    first = call("greatest", start.sql, raw("1"))
    if (start.is_constant and start.constant is None) or not is_simple(start.sql):
        raise unsupported(f"{given.signature} with a computed start")
    # greatest() skips NULL; the substring must not.
    known: Expression = is_not_null(start.sql)
    if not rest:
        return given.result(case((known, call("substring", text.sql, first))))
    length = rest[0]
    if not is_simple(length.sql):
        raise unsupported(f"{given.signature} with a computed length")
    end = binary("+", cast(start.sql, "BIGINT"), cast(length.sql, "BIGINT"))
    positive = call("greatest", binary("-", end, first), raw("0L"))
    size = cast(call("least", positive, raw("2147483647L")), "INT")
    negative = binary("<", length.sql, raw("0"))
    return given.result(
        case(
            (negative, raise_error("22011", "negative substring length not allowed")),
            (call("isnotnull", end), call("substring", text.sql, first, size)),
        )
    )


def _left(given: Call) -> Value:
    text, count = given.arguments
    if isinstance(count.constant, int) and count.constant >= 0:
        return given.result(call("left", text.sql, count.sql))

    def build(sql: Expression) -> Expression:
        rest = call("greatest", binary("+", call("length", sql), count.sql), raw("0"))
        return case(
            (binary(">=", count.sql, raw("0")), call("left", sql, count.sql)),
            (binary("<", count.sql, raw("0")), call("left", sql, rest)),
        )

    return given.result(on(text.sql, build))


def _right(given: Call) -> Value:
    text, count = given.arguments
    if isinstance(count.constant, int) and count.constant >= 0:
        return given.result(call("right", text.sql, count.sql))

    def build(sql: Expression) -> Expression:
        # -n is at most 2^31 - 1 where n is not the smallest integer
        start = binary("-", raw("1L"), cast(count.sql, "BIGINT"))
        start = cast(call("least", start, raw("2147483647L")), "INT")
        return case(
            (binary(">=", count.sql, raw("0")), call("right", sql, count.sql)),
            (binary("<", count.sql, raw("0")), call("substring", sql, start)),
        )

    return given.result(on(text.sql, build))


def _length_of_bpchar(given: Call) -> Value:
    return given.result(call("length", call("rtrim", given.sql[0])))


def _trimmed(name: str) -> Build:
    def build(given: Call) -> Value:
        if len(given.sql) == 1:
            return given.result(call(name, given.sql[0]))
        text, characters = given.sql
        if name == "btrim":
            return given.result(call("btrim", text, characters))
        return given.result(call(name, characters, text))

    return build


def _padded(name: str) -> Build:
    def build(given: Call) -> Value:
        text, size, *fill = given.arguments
        if fill and not (isinstance(fill[0].constant, str) and fill[0].constant):
            raise unsupported(f"{given.signature} with a fill that is not constant")
        return given.result(call(name, text.sql, size.sql, fill[0].sql if fill else string(" ")))

    return build


def _split_part(given: Call) -> Value:
    text, delimiter, field = given.arguments
    if not (isinstance(delimiter.constant, str) and delimiter.constant) or not isinstance(field.constant, int):
        raise unsupported(f"{given.signature} with a delimiter or field that is not constant")
    if field.constant == 0:
        return given.result(raise_error("22023", "field position must not be zero"))
    return given.result(call("split_part", text.sql, delimiter.sql, field.sql))


# --- LIKE ---


def _like(negated: bool, insensitive: bool = False) -> Build:
    def build(given: Call) -> Value:
        text, pattern = given.arguments
        if pattern.constant is None:
            return given.result(raw("CAST(NULL AS BOOLEAN)"))
        if not isinstance(pattern.constant, str):
            raise unsupported(f"{given.signature} with a pattern that is not constant")
        wanted = like_pattern(pattern.constant)
        if wanted is None:
            raise unsupported("LIKE with a pattern that ends with the escape character")  # which few texts come to
        subject = text.sql
        if insensitive:
            given.check_letters()
            if not wanted.isascii():
                raise unsupported("ILIKE with a pattern outside ASCII")
            subject, wanted = on(text.sql, lowered), wanted.lower()
        expression = regular_expression(wanted)
        if expression is None:
            matched = binary("LIKE", subject, string(wanted))
        else:
            matched = call("rlike", subject, string(expression))
        return given.result(not_(matched) if negated else matched)

    return build


def _position(given: Call) -> Value:
    return given.result(call("instr", *given.sql))


def _starts_with(given: Call) -> Value:
    return given.result(call("startswith", *given.sql))


_T: Final = "FROM texts"

ROWS: Final[tuple[Row, ...]] = (
    row("textcat(text,text)", _concatenation, f"SELECT id, t || v, t || '!', 'x' || NULL || t {_T}"),
    row("anytextcat(anynonarray,text)", _concatenation, "SELECT id, i || '!', s || ' x' FROM integers",
        "SELECT id, n || '!', (n / 3) || '' FROM decimals", "SELECT id, x || '?' FROM booleans",
        "SELECT id, d || '' FROM dates"),
    row("textanycat(text,anynonarray)", _concatenation, "SELECT id, 'n=' || n FROM decimals",
        "SELECT id, 'i' || i FROM integers"),
    row("concat(any)", _concat, f"SELECT id, concat(t, '-', v, NULL, id), concat(c, '|') {_T}",
        "SELECT id, concat(x, y) FROM booleans"),
    row("concat_ws(text,any)", _concat_ws, f"SELECT id, concat_ws(',', t, NULL, v, id), concat_ws(NULL, t, v) {_T}"),
    row("upper(text)", _cased("upper", _UPPER_SPECIAL), f"SELECT id, upper(t) {_T}"),
    row("lower(text)", _cased("lower", _LOWER_SPECIAL), f"SELECT id, lower(t) {_T}"),
    *(row(f"{name}(text)", _function("length"), f"SELECT id, {name}(t), {name}(v) {_T}")
      for name in ("length", "char_length", "character_length")),
    *(row(f"{name}(bpchar)", _length_of_bpchar, f"SELECT id, {name}(c) {_T}")
      for name in ("length", "char_length", "character_length")),
    row("octet_length(text)", _function("octet_length"), f"SELECT id, octet_length(t) {_T}"),
    row("bit_length(text)", _function("bit_length"), f"SELECT id, bit_length(t) {_T}"),
    *(row(f"{name}(text,int4)", _substring, f"SELECT id, {name}(t, 2), {name}(t, 0), {name}(t, -3), {name}(t, id) {_T}")
      for name in ("substring", "substr")),
    *(row(f"{name}(text,int4,int4)", _substring, f"SELECT id, {name}(t, 2, 2), {name}(t, 0, 2), {name}(t, -1, 4), "
          f"{name}(t, 3, 0), {name}(t, id, id) {_T}", f"SELECT {name}(t, 1, -1) {_T}",
          f"SELECT id, {name}(t, -2, 2147483647) {_T}") for name in ("substring", "substr")),
    row("left(text,int4)", _left, f"SELECT id, left(t, 2), left(t, -2), left(t, 0), left(t, id - 3) {_T}"),
    row("right(text,int4)", _right, f"SELECT id, right(t, 2), right(t, -2), right(t, 0), right(t, id - 3) {_T}"),
    row("btrim(text)", _trimmed("btrim"), f"SELECT id, btrim(t), trim(t) {_T}"),
    row("ltrim(text)", _trimmed("ltrim"), f"SELECT id, ltrim(t) {_T}"),
    row("rtrim(text)", _trimmed("rtrim"), f"SELECT id, rtrim(t) {_T}"),
    row("btrim(text,text)", _trimmed("btrim"), f"SELECT id, btrim(t, 'ab '), trim(both 'x' from t) {_T}"),
    row("ltrim(text,text)", _trimmed("ltrim"), f"SELECT id, ltrim(t, 'a ') {_T}"),
    row("rtrim(text,text)", _trimmed("rtrim"), f"SELECT id, rtrim(t, 'c ') {_T}"),
    row("lpad(text,int4)", _padded("lpad"), f"SELECT id, lpad(t, 5), lpad(t, 0), lpad(t, -1) {_T}"),
    row("rpad(text,int4)", _padded("rpad"), f"SELECT id, rpad(t, 5) || '|', rpad(t, -1) {_T}"),
    row("lpad(text,int4,text)", _padded("lpad"), f"SELECT id, lpad(t, 7, 'xy'), lpad(t, 1, 'xy') {_T}"),
    row("rpad(text,int4,text)", _padded("rpad"), f"SELECT id, rpad(t, 7, 'xy') {_T}"),
    row("position(text,text)", _position, f"SELECT id, position('b' in t), position('' in t) {_T}"),
    row("strpos(text,text)", _position, f"SELECT id, strpos(t, 'b'), strpos(t, v) {_T}"),
    row("starts_with(text,text)", _starts_with, f"SELECT id, starts_with(t, 'a'), t ^@ 'ab' {_T}"),
    row("replace(text,text,text)", _function("replace"), f"SELECT id, replace(t, 'b', 'XX'), replace(t, '', 'q') {_T}"),
    row("translate(text,text,text)", _function("translate"), f"SELECT id, translate(t, 'abc', 'xy') {_T}"),
    row("reverse(text)", _function("reverse"), f"SELECT id, reverse(t) {_T}"),
    row("repeat(text,int4)", _function("repeat"), f"SELECT id, repeat(t, 2), repeat(t, 0), repeat(t, -1) {_T}"),
    row("ascii(text)", _function("ascii"), f"SELECT id, ascii(t) {_T}"),
    row("md5(text)", _function("md5"), f"SELECT id, md5(t) {_T}"),
    row("split_part(text,text,int4)", _split_part, f"SELECT id, split_part(t, 'b', 1), split_part(t, 'b', 2), "
        f"split_part(t, ' ', -1), split_part(t, 'zz', 2) {_T}"),
    row("textlike(text,text)", _like(False), rf"SELECT id, t LIKE 'a%', t LIKE '%b_', t LIKE '\a%', t LIKE '%\%%' {_T}",
        f"SELECT id, t LIKE '', t LIKE '%', t LIKE '_', t LIKE NULL {_T}"),
    row("textnlike(text,text)", _like(True), f"SELECT id, t NOT LIKE 'a%' {_T}"),
    row("bpcharlike(bpchar,text)", _like(False), f"SELECT id, c LIKE 'a%', c LIKE '%b', c LIKE '% ' {_T}"),
    row("bpcharnlike(bpchar,text)", _like(True), f"SELECT id, c NOT LIKE 'a%' {_T}"),
    row("texticlike(text,text)", _like(False, True), f"SELECT id, t ILIKE 'A%', t ILIKE '%B_' {_T}"),
    row("texticnlike(text,text)", _like(True, True), f"SELECT id, t NOT ILIKE 'A%' {_T}"),
)  # fmt: skip
