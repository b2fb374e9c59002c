"""The error for an array with several dimensions, or other bounds, in a column whose lake form has neither."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SluiceError, unsupported
from catalog.model import Table
from gateway.transaction.enlistment import SchemaChangedError


class ArrayShapeError(SchemaChangedError):
    """The columns `names` cannot store these values in their lake form. A statement whose answer has not begun is
    executed again after the columns have become carried (gateway/execution/schema/array_carrying.py).
    """

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        refusal = unsupported(
            f'this value of column "{names[0]}"',
            hint="A column that is declared with several dimensions, as integer[][], has such values.",
        )
        SluiceError.__init__(self, refusal.sqlstate, refusal.message, hint=refusal.fields.get("H"))
        self.stale = True
        self.relid = table.oid
        self.names = tuple(names)
