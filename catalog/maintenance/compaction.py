"""New files in place of a table's old ones: whose turn it is, and the commit, which gives way to everybody else.

A table is compacted by one at a time: whose turn it is, a row says, which names the backend of a connection of his own
(catalog/sql/maintenance.sql).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import asyncpg

from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, Table
from catalog.postgres.backends import BackendId
from catalog.postgres.pool import FAULTS, UNREACHABLE, Pool, reaching
from catalog.publish import RowChange

_TURN: Final = """
SELECT pg_sluice.take_turn($1::bigint::oid) AS mine,
       pg_backend_pid() AS process_id, pg_sluice.backend_started(pg_backend_pid()) AS started
"""
_GIVE: Final = "SELECT pg_sluice.give_turn($1::bigint::oid)"
_PUBLISH: Final = "SELECT pg_sluice.publish_compaction($1::bigint::oid, $2, $3::text::jsonb, $4::text::jsonb)"
_LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '100ms'"
_LAKE_TABLES: Final = """
SELECT r.relid::bigint, r.changed_snapshot FROM pg_sluice.relation r
WHERE EXISTS (SELECT FROM pg_ducklake.ducklake_data_file f WHERE f.table_id = r.table_id AND f.end_snapshot IS NULL)
"""


class TurnLostError(SluiceError):
    """The connection failed in the midst of a commit: nobody can tell from here whether it went through."""


@dataclass(slots=True)
class Turn:
    """A table whose files one may replace; `close` gives it up, as does the loss of the connection."""

    backend: BackendId
    _relid: int
    _connection: asyncpg.Connection = field(repr=False)

    @classmethod
    async def take(cls, dsn: str, relid: int) -> Self | None:
        """None while it is somebody else's turn."""
        connection = await connect(dsn)
        try:
            with reaching():
                row = await connection.fetchrow(_TURN, relid)
        except BaseException:
            await connection.close()
            raise
        assert row is not None
        if row["mine"]:
            return cls(BackendId(row["process_id"], row["started"]), relid, connection)
        await connection.close()
        return None

    async def publish(self, table: Table, replaced: Sequence[DataFile], new: Sequence[DataFile]) -> str | None:
        """Put `new` in place of `replaced`, as they were read. None where that is done; else why not now: nothing has
        happened then."""
        listed = [
            {
                "data_file_id": file.data_file_id,
                "delete_file_id": None if file.delete_file is None else file.delete_file.delete_file_id,
            }
            for file in replaced
        ]
        change = RowChange(table.oid, new).to_json()
        try:
            async with self._connection.transaction():
                await self._connection.execute(_LOCK_TIMEOUT)
                why: str | None = await self._connection.fetchval(
                    _PUBLISH, table.oid, table.schema_version, json.dumps(listed), change
                )
                return why
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return "others are committing to the table"
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            raise TurnLostError(SqlState.CANNOT_CONNECT_NOW, f"compaction has lost the catalog: {error}") from error

    async def close(self) -> None:
        """It is the next one's turn."""
        try:
            await self._connection.execute(_GIVE, self._relid)
            await self._connection.close()
        except FAULTS:  # with the backend, the turn ends by itself
            self._connection.terminate()


async def tables_with_files(pool: Pool) -> dict[int, int]:
    """Lake tables that have files: the last snapshot that changed each."""
    return {row["relid"]: row["changed_snapshot"] for row in await pool.fetch(_LAKE_TABLES)}
