"""Queries: what a plan depends on, rows from Spark, rows that PostgreSQL computes, rows to a client."""
