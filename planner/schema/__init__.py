"""The plan of a schema change: a compound change, of simple ones, as a value.

sqlglot parses the statement (`parsed_change`); PostgreSQL's trial in the shadows says what became of it
(`trial_outcome`). Both make the same value (`simple_change`), which EXPLAIN prints (`explained_change`).
"""
