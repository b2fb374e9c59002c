"""Locks on rows, keys and tables of the lake, with the modes and the waiting of PostgreSQL."""
