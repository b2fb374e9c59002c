"""Compaction in the catalog: a turn per table, and the commit that replaces files, which yields to all other work.

One session at a time compacts a table. A row holds the turn; it names the backend of that session's own connection
(catalog/sql/maintenance.sql).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

import asyncpg

from catalog.connection import connect
from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, Table
from catalog.postgres.backends import BackendId
from catalog.postgres.pool import FAULTS, UNREACHABLE, Pool, reaching
from catalog.publish import Deletion, RowChange

_TURN: Final = """
SELECT pg_sluice.take_turn($1::bigint::oid) AS mine,
       pg_backend_pid() AS process_id, pg_sluice.backend_started(pg_backend_pid()) AS started
"""
_GIVE: Final = "SELECT pg_sluice.give_turn($1::bigint::oid)"
_PUBLISH: Final = "SELECT pg_sluice.publish_compaction($1::bigint::oid, $2, $3::text::jsonb, $4::text::jsonb)"
_LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '{}ms'"
_LOCK_MILLISECONDS: Final = 100
_IN_LINE: Final = "LOCK TABLE pg_sluice.table_lock_{} IN EXCLUSIVE MODE"
_LAKE_TABLES: Final = """
SELECT r.relid::bigint, r.changed_snapshot, EXISTS (
    SELECT FROM pg_sluice.data_file f
    WHERE f.table_id = r.table_id AND f.hot_rows IS NOT NULL AND f.end_snapshot IS NULL
        AND f.begin_snapshot <= (SELECT max(s.snapshot_id) FROM pg_ducklake.ducklake_snapshot s
                                 WHERE s.snapshot_time <= clock_timestamp() - $1::text::interval)) AS has_old_rows
FROM pg_sluice.relation r
WHERE EXISTS (SELECT FROM pg_sluice.data_file f WHERE f.table_id = r.table_id AND f.end_snapshot IS NULL)
"""


class InLine(NamedTuple):
    """How long to wait, in milliseconds, until no transaction writes to the table; later ones wait meanwhile. Then
    `settle` tells the files to replace as they are now, and the deletions that the new ones need."""

    milliseconds: int
    settle: Callable[[], Awaitable[tuple[Sequence[DataFile], Sequence[Deletion]]]]


class TurnLostError(SluiceError):
    """The connection failed during a commit, so its outcome is unknown here."""


@dataclass(slots=True)
class Turn:
    """The right to replace a table's files. `close` gives it up, and so does the loss of the connection."""

    backend: BackendId
    _relid: int
    _connection: asyncpg.Connection = field(repr=False)

    @classmethod
    async def take(cls, dsn: str, relid: int) -> Self | None:
        """Take the turn of a table; None while another session has it."""
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

    async def publish(
        self, table: Table, replaced: Sequence[DataFile], new: Sequence[DataFile], in_line: InLine | None = None
    ) -> str | None:
        """Replace the files `replaced`, as they were read, by `new`. Return None if done, else the reason; then nothing
        has changed."""
        deleted: Sequence[Deletion] = ()
        try:
            async with self._connection.transaction():
                if in_line is not None:
                    await self._connection.execute(_LOCK_TIMEOUT.format(in_line.milliseconds))
                    await self._connection.execute(_IN_LINE.format(table.table_id))
                    replaced, deleted = await in_line.settle()
                    if not replaced:
                        return "rows of the files have changed"
                await self._connection.execute(_LOCK_TIMEOUT.format(_LOCK_MILLISECONDS))
                listed = [
                    {
                        "data_file_id": file.data_file_id,
                        "delete_file_id": None if file.delete_file is None else file.delete_file.delete_file_id,
                    }
                    for file in replaced
                ]
                change = RowChange(table.oid, new, deleted).to_json()
                why: str | None = await self._connection.fetchval(
                    _PUBLISH, table.oid, table.schema_version, json.dumps(listed), change
                )
                return why
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            return "others are committing to the table"
        except asyncpg.UndefinedTableError:
            return "the table's schema has changed"
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            raise TurnLostError(SqlState.CANNOT_CONNECT_NOW, f"compaction has lost the catalog: {error}") from error

    async def close(self) -> None:
        """Give up the turn."""
        try:
            await self._connection.execute(_GIVE, self._relid)
            await self._connection.close()
        except FAULTS:  # the turn ends with the backend
            self._connection.terminate()


class TableWithFiles(NamedTuple):
    """A lake table that has files: the last snapshot that changed it, and whether hot rows of it are old."""

    changed: int
    has_old_rows: bool


async def tables_with_files(pool: Pool, hot_rows_age: str) -> dict[int, TableWithFiles]:
    """Return the lake tables that have files, by OID. Hot rows of that age, PostgreSQL's text of an interval, are
    old."""
    rows = await pool.fetch(_LAKE_TABLES, hot_rows_age)
    return {row["relid"]: TableWithFiles(row["changed_snapshot"], row["has_old_rows"]) for row in rows}
