"""The weight of a query: light if Spark's preparation is its whole cost, long if it is much SQL.

For a light query Spark neither compiles Java nor adapts its plan, and works in one task: this takes half of the JVM's
processor time. A session is either for light queries or for others. Spark reads these settings in the session when it
plans, and in tasks from the properties of the thread that started the job.

For a long query Spark would generate megabytes of Java code and take seconds to compile it: for few rows, in vain.
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
# The settings that some weight sets.
WEIGHED: Final = (*_ALONE, *_INTERPRETED)
# Characters of SQL, and rows of all tables together up to which reading them is faster than compiling.
_LONG_FROM: Final = 24_000
_LONG_ROWS_MAX: Final = 50_000
# Rows of all scans together.
LIGHT_ROWS_MAX: Final = 2_000
# Constructs that make many rows of few. A text that only looks like one makes the query not light.
_MULTIPLYING: Final = re.compile(r"\b(explode|sequence|range)\s*\(|\brecursive\b", re.IGNORECASE)


def weight_of(query: RunnableQuery, row_counts: list[int | None]) -> Weight:
    """Return the weight. `row_counts`: for each scan, the number of rows handed to Spark; None if it reads files."""
    if _is_light(query, row_counts):
        return Weight.LIGHT
    rows = sum(bound.row_count for bound in query.scans)
    return Weight.LONG if len(query.sql) >= _LONG_FROM and rows <= _LONG_ROWS_MAX else Weight.USUAL


def _is_light(query: RunnableQuery, row_counts: list[int | None]) -> bool:
    if None in row_counts or len(query.sql) >= _LONG_FROM or _MULTIPLYING.search(query.sql):
        return False
    return sum(count for count in row_counts if count is not None) <= LIGHT_ROWS_MAX
