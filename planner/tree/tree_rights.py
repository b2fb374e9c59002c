"""The rights that PostgreSQL demands for a statement, read from its tree.

Asking PostgreSQL about the statement's text once more (EXPLAIN) is not the same: client code that runs while a text is
analysed may change the meaning of its names from one time to the next. The tree is what is executed. Source:
ExecCheckOneRelPerms in execMain.c; acl.h for the bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.tree.nodes import Node

_SELECT: Final = 1
# The offset of RTEPermissionInfo's attribute numbers (FirstLowInvalidHeapAttributeNumber).
_ATTRIBUTE_OFFSET: Final = 7
# Rights that are granted on columns too, with the field that names the columns.
_OF_COLUMNS: Final = (
    (1 << 0, "INSERT", "insertedCols"),
    (1 << 1, "SELECT", "selectedCols"),
    (1 << 2, "UPDATE", "updatedCols"),
)
_OF_TABLES: Final = ((1 << 3, "DELETE"), (1 << 4, "TRUNCATE"), (1 << 14, "MAINTAIN"))
# The row as a whole, and any column.
WHOLE_ROW: Final = 0
ANY_COLUMN: Final = None


@dataclass(frozen=True, slots=True)
class Demand:
    """A right on a relation. `role` is 0 for the current role.

    `column` is a number, `WHOLE_ROW` or `ANY_COLUMN`: the right on the table is enough, and so is that on the column.
    """

    relation: int
    role: int
    right: str
    column: int | None


def demands(tree: Any) -> tuple[Demand, ...]:
    """Return all that PostgreSQL demands. It demands nothing for a WITH query that is not read."""
    return tuple(dict.fromkeys(each for info in _infos(tree) for each in _of(info)))


def _infos(tree: Any) -> Iterator[Node]:
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple | list):
            pending.extend(item)
        elif isinstance(item, Node):
            if item.type == "RTEPERMISSIONINFO":
                yield item
            elif not _is_unread(item):
                pending.extend(value for value in item.fields.values() if isinstance(value, Node | tuple | list))


def _is_unread(node: Node) -> bool:
    return (
        node.type == "COMMONTABLEEXPR"
        and not int(node.cterefcount)
        and isinstance(node.ctequery, Node)
        and int(node.ctequery.commandType) == _SELECT
    )


def _of(info: Node) -> Iterator[Demand]:
    relation, role, required = int(info.relid), int(info.checkAsUser), int(info.requiredPerms)
    for bit, right, named in _OF_COLUMNS:
        if required & bit:
            for column in info.fields[named] or (None,):
                yield Demand(relation, role, right, None if column is None else int(column) - _ATTRIBUTE_OFFSET)
    for bit, right in _OF_TABLES:
        if required & bit:
            yield Demand(relation, role, right, ANY_COLUMN)
