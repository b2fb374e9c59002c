"""The bytes: Parquet files of the lake, read and written by Spark jobs and, where no scan is needed, by Arrow.

Floor plan, bottom first. Pure: `plan` (what may be asked), `raised` (errors raised by our SQL), `layout` (names),
`arrow_types`, `bounds`, `statistics`, `pruning`. Files: `files`, `parquet_writer`, `positions`, `spill`, `check`.
Spark: `jvm`, `statement`, `spark_errors`, `heap_share`, `relay`, `results`, `scan`, `write`, and on top `engine`, the
way in.
"""
