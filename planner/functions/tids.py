"""ctid in Spark: one number made of a row's number in its table; the block is in the upper 32 of its lower 48 bits."""

from __future__ import annotations

from typing import Final

from planner.spark.builders import Expression, binary, call, raw, string

_ROWS_OF_BLOCK_BITS: Final = 15
_OFFSET_BITS: Final = 16


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
