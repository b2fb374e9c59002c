"""Light queries: those over so few rows that getting Spark ready is what they cost. Long ones: those of much SQL.

For them Spark neither compiles Java nor adapts its plan, and works in one task: of the JVM's processor time that takes
half. A session is for light queries or for others; Spark reads these settings when it plans, which is in a session, and
in tasks, which find them among the properties of the thread that started the job.

Of a long query Spark would make Java code by the megabyte, and take seconds to compile it: for few rows, in vain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from storage.plan import RunnableQuery


class Weight(Enum):
    """What a query costs most."""

    USUAL = "rows"
    LIGHT = "getting ready"
    LONG = "reading its text"


_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_ALONE: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
SETTINGS: Final[Mapping[Weight, Mapping[str, str]]] = {
    Weight.USUAL: {},
    Weight.LIGHT: {**_ALONE, **_INTERPRETED},
    Weight.LONG: _INTERPRETED,
}
# Those that some weight sets.
WEIGHED: Final = (*_ALONE, *_INTERPRETED)
# Characters of SQL, and rows of all tables together up to which they are read faster than compiled.
_LONG_FROM: Final = 24_000
_LONG_ROWS_MAX: Final = 50_000
# Rows of all scans together.
LIGHT_ROWS_MAX: Final = 2_000
# What makes many rows of few. Where a text merely looks like it, the query is carried out the other way.
_MULTIPLYING: Final = re.compile(r"\b(explode|sequence|range)\s*\(|\brecursive\b", re.IGNORECASE)


def weight_of(query: RunnableQuery, row_counts: list[int | None]) -> Weight:
    """`row_counts`: of each scan, how many rows Spark is handed; None where it reads files."""
    if _is_light(query, row_counts):
        return Weight.LIGHT
    rows = sum(bound.version.row_count for bound in query.scans)
    return Weight.LONG if len(query.sql) >= _LONG_FROM and rows <= _LONG_ROWS_MAX else Weight.USUAL


def _is_light(query: RunnableQuery, row_counts: list[int | None]) -> bool:
    if None in row_counts or len(query.sql) >= _LONG_FROM or _MULTIPLYING.search(query.sql):
        return False
    return sum(count for count in row_counts if count is not None) <= LIGHT_ROWS_MAX
