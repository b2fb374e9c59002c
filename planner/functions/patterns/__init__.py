"""Patterns and regular expressions of PostgreSQL's, read by an allow-list and written as Java's."""
