"""Light queries: those over so few rows that getting Spark ready is what they cost.

For them Spark neither compiles Java nor adapts its plan, and works in one task: of the JVM's processor time that takes
half. A session is for light queries or for others; Spark reads these settings when it plans, which is in a session, and
in tasks, which find them among the properties of the thread that started the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from storage.plan import RunnableQuery

LIGHT_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Rows of all scans together.
LIGHT_ROWS_MAX: Final = 2_000
# What makes many rows of few. Where a text merely looks like it, the query is carried out the other way.
_MULTIPLYING: Final = re.compile(r"\b(explode|sequence|range)\s*\(|\brecursive\b", re.IGNORECASE)


def is_light(query: RunnableQuery, row_counts: list[int | None]) -> bool:
    """`row_counts`: of each scan, how many rows Spark is handed; None where it reads files."""
    if None in row_counts or _MULTIPLYING.search(query.sql):
        return False
    return sum(count for count in row_counts if count is not None) <= LIGHT_ROWS_MAX
