"""Spark's side: expressions, values with their PostgreSQL types, literals, and the records of plans."""
