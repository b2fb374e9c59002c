"""Texts from one encoding into another, as PostgreSQL converts them, with its own errors; and where it does so."""

from __future__ import annotations

from typing import Final

from catalog.postgres.pool import Pool

_CONVERT: Final = "SELECT pg_catalog.convert($1, $2::text::name, $3::text::name)"
# Of an array its elements count, of a range its bounds.
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
    """The text in `target`; 22021 where it is none in `source`, 22P05 where `target` lacks a character."""
    converted: bytes = await pool.fetchval(_CONVERT, data, source, target)
    return converted


async def send_function(pool: Pool, type_oid: int) -> tuple[str, bool] | None:
    """The name of PostgreSQL's function that gives a type's binary form, or that of the type of which it has several
    values in it, and whether it is so. None where the function is somebody else's."""
    row = await pool.fetchrow(_SEND_FUNCTION, type_oid)
    return None if row is None else (row[0], row[1])
