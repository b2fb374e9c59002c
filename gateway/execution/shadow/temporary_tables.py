"""Temporary tables of the gateway at the backend, with rows for PostgreSQL to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from catalog.datatypes import TEXT, UNKNOWN
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from planner.syntax.lexer import quoted

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.wire.messages.backend import FieldDescription

_TYPES: Final = """
SELECT pg_catalog.format_type(t, m)
FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::integer[]))
    WITH ORDINALITY AS u (t, m, n) ORDER BY n
"""


async def create_temporary(
    session: SessionContext, name: str, columns: Sequence[str], fields: Sequence[FieldDescription]
) -> None:
    """Make a table with these columns, of the types of these fields; it is dropped at the transaction's end at the
    latest.
    """
    oids = number_array(TEXT if field.type_oid == UNKNOWN else field.type_oid for field in fields)
    typmods = number_array(field.typmod for field in fields)
    [types] = await session.backend.run(Statement(_TYPES, (oids, typmods)))
    listed = [f"{quoted(column)} {(name or b'').decode()}" for column, (name,) in zip(columns, types.rows, strict=True)]
    await session.backend.run(Statement(f"CREATE TEMPORARY TABLE {name} ({', '.join(listed)}) ON COMMIT DROP"))
