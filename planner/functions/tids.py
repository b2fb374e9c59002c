"""ctid in Spark: one number made of a row's number in its table; the block is in the upper 32 of its lower 48 bits."""

from __future__ import annotations

from typing import Final

from planner.spark.builders import (
    Expression,
    and_,
    binary,
    call,
    case,
    cast,
    is_not_null,
    raise_error_about,
    raw,
    string,
    try_cast,
)

_ROWS_OF_BLOCK_BITS: Final = 15
_OFFSET_BITS: Final = 16
# As tidin reads it: what stands before the first parenthesis and behind the last does not count.
_TEXT: Final = r"(?s)^[^(,)]*\(\s*\+?([0-9]{1,18}),\s*\+?([0-9]{1,18})\).*$"
_BLOCK_MAX, _OFFSET_MAX = "4294967295L", "65535L"


def tid_of(number: Expression) -> Expression:
    """Return the tid of the row with this number."""
    block = call("shiftright", number, raw(str(_ROWS_OF_BLOCK_BITS)))
    offset = binary("%", number, raw(f"{1 << _ROWS_OF_BLOCK_BITS}L"))
    return binary("+", call("shiftleft", block, raw(str(_OFFSET_BITS))), binary("+", offset, raw("1L")))


def tid_text(sql: Expression) -> Expression:
    """Return a tid's text."""
    block = call("shiftright", sql, raw(str(_OFFSET_BITS)))
    offset = binary("%", sql, raw(f"{1 << _OFFSET_BITS}L"))
    return call("concat", string("("), block, string(","), offset, string(")"))


def tid_of_text(sql: Expression) -> Expression:
    """Return the tid that a text says; 22P02 for one that is none."""
    block, offset = (try_cast(call("regexp_extract", sql, string(_TEXT), raw(each)), "BIGINT") for each in "12")
    within = and_(binary("<=", block, raw(_BLOCK_MAX)), binary("<=", offset, raw(_OFFSET_MAX)))
    number = binary("+", call("shiftleft", block, raw(str(_OFFSET_BITS))), cast(offset, "BIGINT"))
    return case(
        (and_(call("rlike", sql, string(_TEXT)), within), number),
        (is_not_null(sql), raise_error_about("22P02", 'invalid input syntax for type tid: "', sql, '"')),
    )
