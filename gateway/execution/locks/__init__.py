"""Locks on rows, keys and tables of the lake, with PostgreSQL's modes and waiting."""
