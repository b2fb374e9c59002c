"""Functions of bytea: lengths, and its text in other notations."""

from __future__ import annotations

from typing import Final

from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.spark.builders import call
from planner.spark.values import Value


def _function(name: str) -> Build:
    return lambda given: given.result(call(name, *given.sql))


def _encode(given: Call) -> Value:
    notation = str(given.constant(1, "a notation")).lower()
    if notation != "hex":  # base64 is broken into lines
        raise unsupported(f"encode in {notation}")
    return given.result(call("lower", call("hex", given.sql[0])))


_X: Final = "FROM binaries"

ROWS: Final[tuple[Row, ...]] = (
    row("length(bytea)", _function("octet_length"), f"SELECT id, length(x) {_X}"),
    row("octet_length(bytea)", _function("octet_length"), f"SELECT id, octet_length(x) {_X}"),
    row("bit_length(bytea)", _function("bit_length"), f"SELECT id, bit_length(x) {_X}"),
    row("encode(bytea,text)", _encode, f"SELECT id, encode(x, 'hex') {_X}"),
    row("md5(bytea)", _function("md5"), f"SELECT id, md5(x) {_X}"),
)  # fmt: skip
