"""From a tree to a Spark query: FROM, expressions, grouping, windows, subqueries, set operations."""
