"""The types of lake columns, with values of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """A type as expressions see it: its name, how columns of it are declared, and its values as SQL.

    No two values of a type are equal but displayed differently: else it were luck which of them a group shows.
    """

    name: str
    declared: tuple[str, ...]
    texts: tuple[str, ...]
    weight: float = 1.0
    number: bool = False
    ordered: bool = True

    def literal(self, text: str) -> str:
        if self.name == "int4":
            return text if not text.startswith("-") else f"({text})"
        return f"'{text}'::{self.name if self.name != 'char' else 'char(4)'}"

    @property
    def null(self) -> str:
        return f"NULL::{self.name if self.name != 'char' else 'char(4)'}"


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("int4", ("int4", "int4", "int4", "small"),
             ("0", "1", "2", "3", "4", "5", "7", "-1", "-3", "100"), 5, True),
        Kind("int2", ("int2",), ("0", "1", "2", "3", "-2", "300"), 1, True),
        Kind("int8", ("int8",), ("0", "1", "2", "3", "-4", "10000000000"), 2, True),
        Kind("numeric", ("numeric", "numeric(8,2)", "numeric(8,2)", "numeric(12,4)"),
             ("0", "1", "2.5", "-1.25", "3", "99.99", "100.01", "0.01"), 3, True),
        Kind("float4", ("float4",), ("0", "1", "1.5", "-2.25", "0.125", "1024"), 0.5, True),
        Kind("float8", ("float8",), ("0", "1", "2", "-2.5", "0.75", "1048576.5"), 1.5, True),
        Kind("text", ("text", "text", "varchar(8)", "label"),
             ("", "a", "b", "ab", "B", "ä", "abc", "a b", "10", "x_y%"), 3),
        Kind("char", ("char(4)", "char(4)", "char(6)"), ("a", "ab", "b", "abcd", ""), 0.8),
        Kind("bool", ("bool",), ("t", "f"), 1.5),
        Kind("date", ("date",), ("2024-02-29", "2024-03-31", "2023-12-31", "2024-01-01", "1999-05-05"), 1.5),
        Kind("time", ("time",), ("00:00:00", "12:30:00", "23:59:59.5"), 0.4),
        Kind("timestamp", ("timestamp",),
             ("2024-02-29 00:00:00", "2024-03-31 02:30:00", "2023-12-31 23:59:59.999", "2024-01-01 12:00:00"), 1),
        Kind("timestamptz", ("timestamptz",),
             ("2024-02-29 00:00:00+00", "2024-03-31 01:00:00+00", "2023-12-31 23:30:00+00", "2024-10-27 00:30:00+00"),
             1),
        Kind("interval", ("interval",), ("1 day", "2 hours", "1 mon", "-3 days", "00:00:00"), 0.5),
        Kind("uuid", ("uuid",),
             ("00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
              "ffffffff-0000-0000-0000-000000000000"), 0.4),
        Kind("bytea", ("bytea",), ("\\x", "\\x61", "\\x6100", "\\xff"), 0.4),
        Kind("jsonb", ("jsonb",),
             ("{}", '{"a": 1}', '{"a": null, "b": [1, 2]}', "[1, 2, 3]", '"s"', "7",
              "null", '{"a": "x", "c": {"d": 1}}'),
             0.4, ordered=False),
        Kind("int4[]", ("int4[]",), ("{}", "{1}", "{1,2,3}", "{3,NULL}", "{2,1}"), 0.5, ordered=False),
        Kind("text[]", ("text[]",), ("{}", "{a}", "{a,b}", "{NULL,b}", '{"",ab}'), 0.4, ordered=False),
        Kind("mood", ("mood",), ("sad", "ok", "happy"), 0.7),
        Kind("int4range", ("int4range",), ("empty", "[1,3)", "[2,6)", "(,4)", "[0,)"), 0.3, ordered=False),
        Kind("pair", ("pair",), ("(1,a)", "(2,)", "(,b)", "(1,ab)"), 0.3, ordered=False),
    )
}  # fmt: skip
# Kinds whose values Spark has as text alone, so that most statements do without.
PLAIN_TEXT: Final = frozenset({"jsonb", "text[]", "int4range", "pair"})
# The types of users beside the enumeration, whose labels stand for themselves.
TYPES: Final = (
    "CREATE DOMAIN small AS int4 CHECK (VALUE > -2147483648)",
    "CREATE DOMAIN label AS text CHECK (VALUE <> 'none of these')",
    "CREATE TYPE pair AS (a int4, b text)",
)
LABELS: Final = ("sad", "ok", "happy")  # not in the alphabet's order
# What `coercions` may stand beside: the operator takes both.
WIDER: Final = {
    "int2": ("int4", "int8", "numeric"), "int4": ("int2", "int8", "numeric", "float8"), "int8": ("int4", "numeric"),
    "numeric": ("int4", "int8", "int2"), "float4": ("float8", "int4"), "float8": ("float4", "int4"),
    "date": ("timestamp", "timestamptz"), "timestamp": ("date",), "timestamptz": ("date",), "text": ("text",),
}  # fmt: skip
