"""The system columns of lake tables that a statement may name: `ctid` and `tableoid`. Pure."""

from __future__ import annotations

from typing import Any, Final

from catalog.errors import SluiceError, unsupported
from planner.tree.nodes import walk

CTID: Final = -1  # SelfItemPointerAttributeNumber of access/sysattr.h
XMAX: Final = -4  # MaxTransactionIdAttributeNumber
TABLE_OID: Final = -6  # TableOidAttributeNumber
_NAMES: Final = {CTID: "ctid", -2: "xmin", -3: "cmin", XMAX: "xmax", -5: "cmax", TABLE_OID: "tableoid"}

_UNKNOWN: Final = frozenset({-2, -3, -5})
_INSERT, _MERGE = 3, 5  # CmdType of nodes.h


def check_system_columns(tree: Any) -> None:
    """Refuse unknown system columns, and values that INSERT and MERGE would return of rows in the shadow.

    PostgreSQL writes these rows in the shadow. `xmax` is allowed: it is zero for an inserted row, and not zero for
    a row that ON CONFLICT has updated.
    """
    for node in walk(tree):
        if node.type == "VAR" and int(node.varattno) in _UNKNOWN:
            raise refused(node.varattno)
        if node.type != "QUERY" or int(node.commandType) not in (_INSERT, _MERGE):
            continue
        for part in walk((node.returningList, node.onConflict, node.mergeActionList, node.mergeJoinCondition)):
            if part.type != "VAR" or part.varattno >= 0 or part.varattno == TABLE_OID:
                continue
            if part.varattno != XMAX or part.varreturningtype or part.varlevelsup:
                raise refused(part.varattno, " in this place")


def refused(attnum: int, where: str = "") -> SluiceError:
    """Return the error for a system column that does not exist, or not in this place."""
    return unsupported(f'the system column "{_NAMES[attnum]}"{where}')
