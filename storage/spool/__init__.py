"""Spools: rows and bytes that wait for a client or for the end of a statement, in memory and on disk."""
