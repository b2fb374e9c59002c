"""What decides how a value is written: the type of its result column, and the session's settings.

Sources: PostgreSQL documentation, "Date/Time Output" for DateStyle and IntervalStyle, and "Client Connection
Defaults" for extra_float_digits and bytea_output.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Format(IntEnum):
    """The protocol's format codes."""

    TEXT = 0
    BINARY = 1


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result as RowDescription promises it: pg_type OID, typmod (-1 for none), format code.

    An array of elements of a type that a user has made has the OIDs of both types besides (else 0).
    """

    type_oid: int
    typmod: int = -1
    format: int = Format.TEXT
    array_oid: int = 0
    element_oid: int = 0


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """The session's settings that change text output; spelled as SHOW spells them.

    `date_style` is "ISO|SQL|Postgres|German, MDY|DMY|YMD"; `timezone` any name that PostgreSQL accepts for TimeZone.
    None of them changes the binary format.
    """

    timezone: str = "UTC"
    date_style: str = "ISO, MDY"
    interval_style: str = "postgres"
    extra_float_digits: int = 1
    bytea_output: str = "hex"
