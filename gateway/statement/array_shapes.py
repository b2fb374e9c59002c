"""Arrays of several dimensions, or with other bounds, for a column whose form in the lake has neither."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SluiceError, unsupported
from catalog.model import Table
from gateway.transaction.enlistment import SchemaChangedError


class UnheldArrayError(SchemaChangedError):
    """These columns, by `names`, cannot have the values as they are. A statement of whose answer nothing has been sent
    is carried out again once they are carried (gateway/execution/schema/array_carrying.py)."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        refusal = unsupported(
            f'this value of column "{names[0]}"',
            hint="A column that is declared with several dimensions, as integer[][], has such values.",
        )
        SluiceError.__init__(self, refusal.sqlstate, refusal.message, hint=refusal.fields.get("H"))
        self.stale = True
        self.relid = table.oid
        self.names = tuple(names)
