"""Texts from one encoding into another, as PostgreSQL converts them, with its own errors; and where it does so."""

from __future__ import annotations

from typing import Final

import asyncpg

from catalog.errors import SluiceError
from catalog.pool import Pool

_CONVERT: Final = "SELECT pg_catalog.convert($1, $2::text::name, $3::text::name)"
_SEND_FUNCTION: Final = """
SELECT p.proname::text FROM pg_catalog.pg_type t JOIN pg_catalog.pg_proc p ON p.oid = t.typsend
WHERE t.oid = $1::bigint::oid AND p.pronamespace = 'pg_catalog'::regnamespace
"""


async def convert(pool: Pool, data: bytes, source: str, target: str) -> bytes:
    """The text in `target`; 22021 where it is none in `source`, 22P05 where `target` lacks a character."""
    try:
        converted: bytes = await pool.fetchval(_CONVERT, data, source, target)
    except asyncpg.DataError as error:
        raise SluiceError(str(error.sqlstate), error.args[0]) from error
    return converted


async def send_function(pool: Pool, type_oid: int) -> str | None:
    """The name of the function that gives a type's binary form, where it is PostgreSQL's own."""
    name: str | None = await pool.fetchval(_SEND_FUNCTION, type_oid)
    return name
