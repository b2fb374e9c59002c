"""Rows of one state of a table that another state lacks, in Spark SQL, for REFRESH … CONCURRENTLY.

It finds the rows to delete from a materialized view, and those to insert. Pure. As in PostgreSQL's
refresh_by_match_merge, rows are the same if each of their values is, down to its stored form (0 and -0 differ); if a
key has a NULL, a row is the same as no other. Source: PostgreSQL's matview.c; record_image_eq in rowtypes.c.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from storage.plan import column_name

if TYPE_CHECKING:
    from catalog.model import Column, Table


def lacking(table: Table, key: Collection[int], shown: Collection[str], of: str, other: str) -> str:
    """Return the columns `shown` of rows of one scan that another scan of the same table lacks.

    `key` are the attnums of one of its keys.
    """
    same = " AND ".join(_same(column, of, other, is_key=column.attnum in key) for column in table.columns)
    listed = ", ".join(f"{of}.{name}" for name in shown)
    return f"SELECT {listed} FROM {of} LEFT ANTI JOIN {other} ON {same}"


def _same(column: Column, of: str, other: str, *, is_key: bool) -> str:
    one, another = (f"{each}.{column_name(column.attnum)}" for each in (of, other))
    if any(kind in column.form.spark for kind in ("FLOAT", "DOUBLE")):  # to Spark, 0 and -0 are equal
        one, another = (f"CAST({each} AS STRING)" for each in (one, another))
    return f"{one} {'=' if is_key else '<=>'} {another}"
