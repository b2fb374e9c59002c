"""Snapshots that a session exports for others: the lake's, beside PostgreSQL's own (pg_export_snapshot).

PostgreSQL's identifier names the exporting transaction. It says whether that still runs; the row of it in the catalog
says which snapshot of the lake it reads.
"""

from __future__ import annotations

import re
from typing import Final

import asyncpg

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.postgres.pool import Pool

# The process number and the transaction of PostgreSQL's virtual transaction ID, in hexadecimal, and a count.
_IDENTIFIER: Final = re.compile(r"([0-9A-Fa-f]+)-([0-9A-Fa-f]+)-\d+")
_EXPORT: Final = """
WITH ended AS (
    DELETE FROM pg_sluice.exported_snapshot e WHERE NOT EXISTS (
        SELECT FROM pg_catalog.pg_locks l WHERE l.virtualtransaction = e.transaction))
INSERT INTO pg_sluice.exported_snapshot (transaction, snapshot_id) VALUES ($1, $2) ON CONFLICT (transaction)
DO UPDATE SET snapshot_id = CASE WHEN exported_snapshot.snapshot_id = excluded.snapshot_id THEN excluded.snapshot_id END
"""
_SNAPSHOT: Final = "SELECT snapshot_id FROM pg_sluice.exported_snapshot WHERE transaction = $1"


async def export(pool: Pool, transaction: str, snapshot: int) -> None:
    """Record the snapshot of a transaction that is about to export it. One that exports several has none."""
    await pool.execute(_EXPORT, transaction, snapshot)


async def exported(pool: Pool, identifier: str) -> int:
    """The snapshot that an identifier stands for; PostgreSQL's errors if it stands for none, 0A000 if the lake's is
    unknown.
    """
    named = _IDENTIFIER.fullmatch(identifier)
    if named is None:
        text = f'invalid snapshot identifier: "{identifier}"'
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, text)
    async with pool.acquire() as connection:
        taking = connection.transaction(isolation="repeatable_read")
        await taking.start()
        try:
            await connection.execute(f"SET TRANSACTION SNAPSHOT '{identifier}'")
        except asyncpg.PostgresError as error:
            raise SluiceError(error.sqlstate, error.args[0], detail=error.detail) from error
        finally:
            await taking.rollback()
        process, number = (int(each, 16) for each in named.groups())
        snapshot: int | None = await connection.fetchval(_SNAPSHOT, f"{process}/{number}")
    if snapshot is None:
        raise unsupported("SET TRANSACTION SNAPSHOT of a snapshot that a function has exported, or one of several")
    return snapshot
