"""EXPLAIN of queries and of schema changes."""
