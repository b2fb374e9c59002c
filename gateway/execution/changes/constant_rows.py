"""UPDATE and DELETE that set constants in few rows, or delete them: the gateway makes the new rows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.execution.changes.shadow_execution import Outcome
from gateway.execution.shadow.loaded_rows import row_schema
from storage.parquet.row_conditions import RowFilter

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.execution.shadow.loaded_rows import Loaded
    from planner.plans.constant_change import ConstantChange

_OPERATORS: Final = {"+": pc.add_checked, "-": pc.subtract_checked}


def changed_rows(table: Table, loaded: Loaded, change: ConstantChange) -> tuple[Loaded, Outcome]:
    """The loaded rows that meet the change's conditions, and what becomes of them. pa.ArrowInvalid if a number does not
    fit its column.
    """
    met = loaded.chosen(RowFilter(table.columns, change.conditions).mask(loaded.rows))
    count, none = met.rows.num_rows, row_schema(table).empty_table()
    if not change.values:
        return met, Outcome([], f"DELETE {count}", none, none, none)
    fresh = met.rows
    for place, column in enumerate(table.columns):
        value = change.values.get(column.attnum)
        if value is not None:
            operator = _OPERATORS.get(value.operator or "")
            new = pa.repeat(value.scalar, count) if operator is None else operator(fresh[column.name], value.scalar)
            fresh = fresh.set_column(place, fresh.field(place), new)
    return met, Outcome([], f"UPDATE {count}", fresh, none, none, pa.array(np.arange(count)))
