"""Rows of one state of a table that another state lacks, in Spark's SQL: what REFRESH … CONCURRENTLY takes out of a
materialized view, and what it puts in.

Pure. As in PostgreSQL's refresh_by_match_merge, rows are the same where each of their values is, down to what is stored
(0 and -0 differ); and where a key has a NULL, a row is the same as no other.
Source: PostgreSQL's matview.c; record_image_eq in rowtypes.c.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from storage.plan import column_name

if TYPE_CHECKING:
    from catalog.model import Column, Table


def lacking(table: Table, key: Collection[int], shown: Collection[str], of: str, other: str) -> str:
    """The columns `shown` of the rows of one scan that are not among those of another, of the same table; `key` are the
    attnums of one of its keys."""
    same = " AND ".join(_same(column, of, other, is_key=column.attnum in key) for column in table.columns)
    listed = ", ".join(f"{of}.{name}" for name in shown)
    return f"SELECT {listed} FROM {of} LEFT ANTI JOIN {other} ON {same}"


def _same(column: Column, of: str, other: str, *, is_key: bool) -> str:
    one, another = (f"{each}.{column_name(column.attnum)}" for each in (of, other))
    if any(kind in column.form.spark for kind in ("FLOAT", "DOUBLE")):  # to Spark, 0 and -0 are equal
        one, another = (f"CAST({each} AS STRING)" for each in (one, another))
    return f"{one} {'=' if is_key else '<=>'} {another}"
