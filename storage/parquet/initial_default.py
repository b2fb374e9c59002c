"""Initial defaults in lake form: the value of a column for rows of a file that was written without it.

The catalog has it as PostgreSQL's text, in ISO's style and UTC. Arrow reads none of the calendar beyond four digits of
a year: infinities, years before Christ or after 9999, a zone without minutes, 24:00.
"""

from __future__ import annotations

import pyarrow as pa

from catalog import datatypes
from catalog.errors import unsupported
from catalog.model import Column
from storage.parquet.arrow_types import arrow_type
from storage.parquet.bounds import bound_form

# The unit in which an instant or a day is counted before conversion.
_COUNTED = {"date": pa.int32(), "time": pa.int64(), "timestamp": pa.int64(), "timestamptz": pa.int64()}
_BEFORE_CHRIST = " BC"


def initial_default(column: Column) -> pa.Scalar:
    """Return the column's initial default as a value in lake form."""
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
    """Return DuckDB's spelling: "(BC)" stands behind the date, in PostgreSQL's text at the end."""
    if not text.endswith(_BEFORE_CHRIST):
        return text
    date, blank, clock = text.removesuffix(_BEFORE_CHRIST).partition(" ")
    return f"{date} (BC){blank}{clock}"
