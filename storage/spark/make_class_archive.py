"""Make the archive of Spark's classes (storage.spark.class_archive): `python -m storage.spark.make_class_archive`.

Run it once per installed Java and Spark, when Sluice is set up. Running it again does nothing.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet

from storage.spark.class_archive import archive_path
from storage.spark.jvm import EngineSettings, SparkJvm
from storage.spark.results import ArrowRows
from storage.spark.small_query import SETTINGS, Weight
from storage.spark.statement import Statement

_MAKING_SECONDS_MAX: Final = 600.0
# The work of most statements: rows in memory and in files, compiled and not, grouped, joined, sorted, ranked.
_EXERCISES: Final = (
    "SELECT a % 3 AS g, count(*), sum(a), max(b) FROM r GROUP BY a % 3 ORDER BY max(b), g LIMIT 5",
    "SELECT x.b, y.a FROM r x JOIN r y ON x.a = y.a + 1 WHERE y.b > 'b' ORDER BY x.b",
    "SELECT a, rank() OVER (PARTITION BY a % 2 ORDER BY b) FROM r x WHERE a IN (SELECT a + 1 FROM r)",
    "SELECT CAST(a AS DECIMAL(10, 2)) * 2, date_add(DATE '2000-01-01', a), concat(b, a) FROM r WHERE b LIKE 'v%'",
)


def make_archive(path: Path) -> None:
    """Start Spark, run the work of most statements, and archive the loaded classes. Some 20 seconds."""
    with tempfile.TemporaryDirectory(prefix="archive-", dir=path.parent) as folder, ThreadPoolExecutor() as prefetch:
        scratch, made = Path(folder), Path(folder) / path.name
        table = pa.table({"a": pa.array(range(10), pa.int32()), "b": [f"v{n}" for n in range(10)]})
        parquet.write_table(table, scratch / "rows.parquet", compression="zstd")
        options = f"-XX:ArchiveClassesAtExit={made}"
        jvm = SparkJvm(EngineSettings(scratch=scratch, spark={"spark.driver.extraJavaOptions": options}))
        try:
            for weight in (Weight.USUAL, Weight.LIGHT):
                session = jvm.session.newSession()
                for name, value in SETTINGS[weight].items():
                    session.conf().set(name, value)
                statement = Statement("archive")
                statement.bind(jvm, "UTC")
                statement.weigh(jvm, weight)
                for rows in ("VALUES (1, 'v1'), (2, 'v2')", f"SELECT * FROM parquet.`{folder}/rows.parquet`"):
                    for exercise in _EXERCISES:
                        frame = session.sql(f"WITH r (a, b) AS ({rows}) {exercise}")
                        list(ArrowRows(jvm, statement, frame, "UTC", prefetch))
        finally:
            jvm.stop(_MAKING_SECONDS_MAX)
        made.rename(path)


if __name__ == "__main__":
    wanted = archive_path()
    if wanted is not None and not wanted.exists():
        print("sluice: archiving Spark's classes (half a minute, once)", file=sys.stderr)
        make_archive(wanted)
