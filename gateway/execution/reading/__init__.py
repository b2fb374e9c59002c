"""Queries: what a plan depends on, rows from Spark, rows that PostgreSQL computes, and rows for a client."""
