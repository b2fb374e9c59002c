"""The order of a table's sort key (`sluice.sort_by`), over rows in lake form.

Texts are in the order of their bytes, as bounds of files are, whatever the column's collation is. NaN is greater than
all numbers where the order is ascending; in a descending one it stands behind them as well.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Table


def sort_indices(rows: pa.Table, table: Table) -> pa.Array:
    """Return the places of the rows, whose columns are the table's, in the order of its sort key. Blocking."""
    places = {column.attnum: index for index, column in enumerate(table.columns)}
    names = [f"k{index}" for index in range(len(table.sort_key))]
    keys = pa.table([rows.column(places[each.attnum]) for each in table.sort_key], names=names)
    order = [
        (
            name,
            "descending" if each.descending else "ascending",
            "at_start" if each.nulls_first else "at_end",
        )
        for name, each in zip(names, table.sort_key, strict=True)
    ]
    return pc.sort_indices(keys, options=pc.SortOptions(order))
