"""SQL for texts: of a value of any type, as the type's own output function writes it; and of a constant.

A cast to text differs if a user has made one for the type, and then runs the user's function.
"""

from __future__ import annotations


def own_text(value: str) -> str:
    """The text of an SQL expression, which is evaluated twice; NULL only for NULL, not for a row of NULLs."""
    return f"CASE WHEN pg_catalog.num_nulls({value}) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.format('%s', {value}) END"


def escaped(text: str) -> str:
    """A constant with backslashes, which means the same whatever the client's standard_conforming_strings."""
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{doubled}'"
