"""Whether rows of a table reference keys that another one lacks, without Spark: for tables of few rows.

Blocking: call it in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, TableVersion
from storage.indexes.keys import key_chunks, live_files


def lacks_keys(
    data_path: str,
    version: TableVersion,
    columns: Sequence[Column],
    parent: TableVersion,
    others: Sequence[Column],
) -> bool:
    """Return whether a row of `version` without NULLs in its columns has values that no row of `parent` has."""
    present = pa.chunked_array(_keys(data_path, parent, others), pa.binary())
    return any(not pc.all(pc.is_in(keys, present)).as_py() for keys in _keys(data_path, version, columns) if len(keys))


def _keys(data_path: str, version: TableVersion, columns: Sequence[Column]) -> list[pa.Array]:
    chunks = key_chunks(data_path, version.table, live_files(version), columns, nulls_distinct=True)
    return [chunk.keys for chunk in chunks]
