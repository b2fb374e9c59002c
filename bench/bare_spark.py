"""Spark without us: the same settings, the same Parquet files, the same 22 queries, in a session of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import sqlglot
from pyspark.sql import SparkSession
from sqlglot import expressions as exp

from storage.spark.jvm import EngineSettings, spark_settings

# Lake tables hold char(n) as PostgreSQL does, padded; PostgreSQL compares without the padding, plain strings do not.
PADDED = {
    "r_name": 25, "n_name": 25, "s_name": 25, "s_phone": 15, "p_mfgr": 25, "p_brand": 10, "p_container": 10,
    "c_phone": 15, "c_mktsegment": 10, "o_orderpriority": 15, "o_clerk": 15, "l_shipinstruct": 25, "l_shipmode": 10,
}  # fmt: skip


class BareSpark:
    """`tables` maps each name to its Parquet files."""

    def __init__(self, tables: dict[str, list[Path]]) -> None:
        builder = SparkSession.Builder()
        for name, value in spark_settings(EngineSettings(), Path(tempfile.mkdtemp(prefix="bench-spark-"))).items():
            builder = builder.config(name, value)
        self._session = builder.config("spark.app.name", "bare").getOrCreate()
        self._padded = False
        for name, files in tables.items():
            frame = self._session.read.parquet(*map(str, files))
            frame.createOrReplaceTempView(name)
            if name == "region":
                self._padded = max(len(row.r_name) for row in frame.select("r_name").collect()) == PADDED["r_name"]

    def translate(self, sql: str) -> str:
        """PostgreSQL's query in Spark's dialect."""
        tree = sqlglot.parse_one(sql, read="postgres")
        if self._padded:
            for literal in list(tree.find_all(exp.Literal)):
                width = _compared_with(literal)
                if literal.is_string and width is not None:
                    literal.set("this", literal.name.ljust(width))
        return tree.sql(dialect="spark")

    def run(self, sql: str) -> int:
        """Run a translated query and bring its rows home; how many they are."""
        return int(self._session.sql(sql).toArrow().num_rows)

    def stop(self) -> None:
        """End the JVM's Spark context."""
        self._session.stop()


def _compared_with(literal: exp.Literal) -> int | None:
    """The width of the padded column that the literal stands against, in =, <> or IN."""
    parent = literal.parent
    if not isinstance(parent, exp.EQ | exp.NEQ | exp.In):
        return None
    sides = [side for side in (parent.this, parent.args.get("expression")) if isinstance(side, exp.Column)]
    return next((PADDED[side.name] for side in sides if side.name in PADDED), None)
