"""Conversions of text between encodings, by PostgreSQL and with its errors."""

from __future__ import annotations

from typing import Final

from catalog.postgres.pool import Pool

_CONVERT: Final = "SELECT pg_catalog.convert($1, $2::text::name, $3::text::name)"
# For an array its elements count, for a range its bounds.
_SEND_FUNCTION: Final = """
SELECT p.proname::text, inner_type.oid <> t.oid
FROM pg_catalog.pg_type t
LEFT JOIN pg_catalog.pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
JOIN pg_catalog.pg_type inner_type
    ON inner_type.oid = CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE coalesce(r.rngsubtype, t.oid) END
JOIN pg_catalog.pg_proc p ON p.oid = inner_type.typsend AND p.pronamespace = 'pg_catalog'::regnamespace
WHERE t.oid = $1::bigint::oid
"""


async def convert(pool: Pool, data: bytes, source: str, target: str) -> bytes:
    """Return the text in `target`; 22021 if it is invalid in `source`, 22P05 if `target` lacks a character."""
    converted: bytes = await pool.fetchval(_CONVERT, data, source, target)
    return converted


async def send_function(pool: Pool, type_oid: int) -> tuple[str, bool] | None:
    """Return PostgreSQL's send function of a type, and whether the type holds several values.

    For a type of several values (array, range), the function is that of its elements. None if the function is not
    PostgreSQL's.
    """
    row = await pool.fetchrow(_SEND_FUNCTION, type_oid)
    return None if row is None else (row[0], row[1])
