"""Storage: Parquet files of the lake, read and written by Spark jobs, or by Arrow if no scan is needed.

Packages, bottom first. `parquet`: files, their types, bounds and statistics. `indexes`: keys, sidecars and pruning.
`maintenance`: check, compaction, rewrites. `spool`: rows that wait, on disk. `spark`: the JVM, results, scans and
writes, with `engine` on top. Beside them, `plan` has the vocabulary of the planner.
"""
