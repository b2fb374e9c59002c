"""Rows and bytes that wait: for a client, or for the end of a statement; in memory, and the rest on disk."""
