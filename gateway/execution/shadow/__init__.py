"""Rows in shadows: copied there, checked by PostgreSQL, and read back; the guard against functions that read them
empty.
"""
