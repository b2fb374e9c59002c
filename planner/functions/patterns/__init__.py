"""Patterns and regular expressions of PostgreSQL, read by an allow-list and written as Java's."""
