"""EXPLAIN of queries and of changes of schemas."""
