"""System columns of lake tables: `ctid`, from where a row is, and `tableoid`. There are no others.

A ctid is "(block,offset)". Here it is a row's number in its table (`storage.row_numbers`), in blocks of 32,768 rows: so
it is unique and has an order, that in which rows were written, and as long as nobody changes the row or its file is
merged with others, the row keeps it. Spark computes with one number, the block in the upper 32 of its lower 48 bits.

`xmin` and its kin name transactions, of which the lake keeps nothing; they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from catalog.datatypes import OID, TID
from catalog.errors import SluiceError, unsupported
from planner.nodes import walk
from planner.spark import Expression, binary, call, case, column, is_not_null, raw, string
from planner.values import Value
from storage.plan import NUMBER_COLUMN

if TYPE_CHECKING:
    from planner.scope import ScanBuilder

CTID: Final = -1  # SelfItemPointerAttributeNumber of access/sysattr.h
XMAX: Final = -4  # MaxTransactionIdAttributeNumber
TABLE_OID: Final = -6  # TableOidAttributeNumber
_NAMES: Final = {CTID: "ctid", -2: "xmin", -3: "cmin", XMAX: "xmax", -5: "cmax", TABLE_OID: "tableoid"}

_UNKNOWN: Final = frozenset({-2, -3, -5})
_INSERT, _MERGE = 3, 5  # CmdType of nodes.h
_ROWS_OF_BLOCK_BITS: Final = 15
_OFFSET_BITS: Final = 16


def system_column(scan: ScanBuilder | None, attnum: int) -> Value:
    """The value of a system column of a scan; None where the row is not one that stands in a file."""
    if scan is None or attnum not in (CTID, TABLE_OID):
        raise _refused(attnum, "" if scan else " in this place")
    scan.needs_number = True
    number = column(scan.alias, NUMBER_COLUMN)
    if attnum == TABLE_OID:
        return Value(case((is_not_null(number), raw(f"{scan.table.oid}L"))), OID)
    block = call("shiftright", number, raw(str(_ROWS_OF_BLOCK_BITS)))
    offset = binary("%", number, raw(f"{1 << _ROWS_OF_BLOCK_BITS}L"))
    return Value(binary("+", call("shiftleft", block, raw(str(_OFFSET_BITS))), binary("+", offset, raw("1L"))), TID)


def check_system_columns(tree: Any) -> None:
    """Refuses those that nobody can tell, and what INSERT and MERGE would tell of rows as they are in the shadow, where
    PostgreSQL makes them.

    `xmax` is there what it is of a row that PostgreSQL has inserted, zero, or that ON CONFLICT has updated.
    """
    for node in walk(tree):
        if node.type == "VAR" and int(node.varattno) in _UNKNOWN:
            raise _refused(node.varattno)
        if node.type != "QUERY" or int(node.commandType) not in (_INSERT, _MERGE):
            continue
        for part in walk((node.returningList, node.onConflict, node.mergeActionList, node.mergeJoinCondition)):
            if part.type != "VAR" or part.varattno >= 0 or part.varattno == TABLE_OID:
                continue
            if part.varattno != XMAX or part.varreturningtype or part.varlevelsup:
                raise _refused(part.varattno, " in this place")


def _refused(attnum: int, where: str = "") -> SluiceError:
    return unsupported(f'the system column "{_NAMES[attnum]}"{where}')


def tid_text(sql: Expression) -> Expression:
    """A tid's text."""
    block = call("shiftright", sql, raw(str(_OFFSET_BITS)))
    offset = binary("%", sql, raw(f"{1 << _OFFSET_BITS}L"))
    return call("concat", string("("), block, string(","), offset, string(")"))
