"""The text of a value of any type, as the type's own output function writes it.

A cast to text says something else where a user has made one for the type, and runs the user's function.
"""

from __future__ import annotations


def own_text(value: str) -> str:
    """The text of what this SQL is, which is asked for twice; NULL of NULL alone, and not of a row of NULLs."""
    return f"CASE WHEN pg_catalog.num_nulls({value}) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.format('%s', {value}) END"
