"""What rows have in a column that their file was written without: its initial default, in lake form.

The catalog has it as PostgreSQL's text, in ISO's style and UTC. Arrow reads none of what the calendar has beyond four
digits of a year: infinities, years before Christ or after 9999, a zone without minutes, 24:00.
"""

from __future__ import annotations

import pyarrow as pa

from catalog import datatypes
from catalog.errors import unsupported
from catalog.model import Column
from storage.parquet.arrow_types import arrow_type
from storage.parquet.bounds import bound_form

# What an instant or a day is counted in, before it is one.
_COUNTED = {"date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64()}
_BEFORE_CHRIST = " BC"


def initial_default(column: Column) -> pa.Scalar:
    """The column's initial default as a value in lake form."""
    text, kind = column.initial_default, arrow_type(column.form)
    assert text is not None
    if column.form.children:
        raise unsupported(f'an initial default of column "{column.name}", which is an array or an interval')
    if column.type_oid == datatypes.BYTEA:
        return pa.scalar(bytes.fromhex(text.removeprefix("\\x")), kind)
    if column.type_oid == datatypes.BOOL:
        return pa.scalar(text in {"t", "true"})
    counted = _COUNTED.get(column.form.ducklake)
    if counted is not None:
        key = bound_form(column.form.ducklake).from_text(_as_duckdb_writes(text))
        try:
            return pa.scalar(key, counted).cast(kind)
        except OverflowError:  # of PostgreSQL's last 29 years
            raise unsupported(f'the initial default {text} of column "{column.name}"') from None
    return pa.scalar(text).cast(kind)


def _as_duckdb_writes(text: str) -> str:
    """DuckDB has what says that a year is before Christ behind the date, PostgreSQL behind it all."""
    if not text.endswith(_BEFORE_CHRIST):
        return text
    date, blank, clock = text.removesuffix(_BEFORE_CHRIST).partition(" ")
    return f"{date} (BC){blank}{clock}"
