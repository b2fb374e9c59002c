"""Keys over expressions, and of partial indexes: Spark computes them.

Results for committed files are kept: a file's rows never change, and deleted rows are in delete files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from cachetools import LRUCache

from catalog.constraints import Key
from catalog.indexes import ComputedKey
from catalog.model import Column, Table
from gateway.node.sidecar_building import computed_keys, keys_query
from storage.indexes.keys import Given, LiveFile
from storage.indexes.sidecars import key_columns

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Rows whose keys a gateway keeps in memory.
_KEPT_ROWS_MAX: Final = 1_000_000


# The keys of files, by the key's form and the file's path.
_kept: Final = LRUCache[tuple[object, str], pa.Table](_KEPT_ROWS_MAX, getsizeof=lambda rows: rows.num_rows)


def columns_of(table: Table, key: Key | ComputedKey) -> Sequence[Column]:
    """The columns of which keys are made."""
    if isinstance(key, ComputedKey):
        return key_columns(key.form)
    return [table.column(attnum) for attnum in key.attnums]


async def given_keys(
    session: SessionContext, table: Table, key: Key | ComputedKey, files: Sequence[LiveFile]
) -> Given | None:
    """The keys that files do not contain themselves; None if they contain them."""
    if not isinstance(key, ComputedKey):
        return None
    # A column of another type has another ID, and other files.
    form = (key.form, table.columns)
    found = {each.file.path: _kept.get((form, each.file.path)) for each in files}
    missing = [each.file for each in files if found[each.file.path] is None]
    if missing:
        computed = await computed_keys(session.gateway, table, key.form, missing, session.tag)
        for file in missing:
            found[file.path] = computed[file.path]
            if computed[file.path].num_rows <= _KEPT_ROWS_MAX:
                _kept[form, file.path] = computed[file.path]
    return {path: rows for path, rows in found.items() if rows is not None}


def check_computable(session: SessionContext, table: Table) -> None:
    """Raise 0A000 if Spark cannot compute a UNIQUE index of the table."""
    for key in table.computed_keys:
        keys_query(session.gateway, table, key.form)
