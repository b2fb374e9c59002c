"""System columns of lake tables: `ctid`, from a row's place, and `tableoid`. There are no others.

A ctid is "(block,offset)". Here it is a row's number in its table (`storage.parquet.row_numbers`), in blocks of 32,768
rows. So it is unique and has the order in which rows were written. A row keeps it until it changes or its file is
compacted.

`xmin` and the like name transactions, of which the lake keeps nothing; they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.datatypes import OID, TID
from planner.functions.tids import tid_of
from planner.spark.builders import case, column, is_not_null, raw
from planner.spark.values import Value
from planner.tree.system_attributes import CTID, TABLE_OID, refused
from storage.plan import NUMBER_COLUMN

if TYPE_CHECKING:
    from planner.translate.scope import ScanBuilder


def system_column(scan: ScanBuilder | None, attnum: int) -> Value:
    """Return the value of a system column of a scan; None if the row does not stand in a file."""
    if scan is None or attnum not in (CTID, TABLE_OID):
        raise refused(attnum, "" if scan else " in this place")
    scan.needs_number = True
    number = column(scan.alias, NUMBER_COLUMN)
    if attnum == TABLE_OID:
        return Value(case((is_not_null(number), raw(f"{scan.table.oid}L"))), OID)
    return Value(tid_of(number), TID)
