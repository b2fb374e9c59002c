"""A statement's own transaction on the lake: begun at the backend, files staged, all published by its COMMIT.

Killed at any moment it leaves nothing but files that no snapshot names, which `sluice check` lists.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from catalog.model import Table, TableVersion
from catalog.publish import RowChange
from gateway.backend import BackendLostError, Statement
from gateway.lake.reading import refuse_block
from gateway.portal import StatementPortal
from storage.write import WriteResult

# The timeouts that a client sets act on the Sluice statement; they must not end its idle backend meanwhile.
_BEGIN: Final = (
    Statement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"),
    Statement(
        "SELECT (extract(epoch FROM current_setting('statement_timeout')::interval) * 1000)::bigint,"
        " set_config('idle_in_transaction_session_timeout', '0', true),"
        " set_config('transaction_timeout', '0', true)"
    ),
)
_STAGE: Final = "SELECT pg_sluice.stage($1, $2::jsonb)"


class LakeTransaction:
    """`async with LakeTransaction(portal, "INSERT") as transaction: … await transaction.commit()`.

    Leaving without `commit` rolls back and removes the files of every change that was added.
    """

    def __init__(self, portal: StatementPortal, what: str) -> None:
        self._portal = portal
        self._session = portal.session
        self._what = what
        self._changes: list[RowChange] = []
        self._written: list[tuple[WriteResult, Table]] = []
        self._open = False

    async def __aenter__(self) -> Self:
        refuse_block(self._session, self._what)
        [_, settings] = await self._session.backend.run(*_BEGIN)
        self._open = True
        milliseconds = settings.rows[0][0]
        assert milliseconds is not None
        self._portal.limit_time(int(milliseconds) / 1000 or None)
        return self

    def wrote(self, result: WriteResult, version: TableVersion) -> None:
        """Add what a job wrote on top of a version of the table, to be published."""
        self._written.append((result, version.table))
        if result.data_files or result.delete_files:
            self.add(row_change(result, version))

    def add(self, change: RowChange) -> None:
        """Add a change that has no files of its own."""
        self._changes.append(change)

    async def commit(self) -> None:
        """Publish. When this returns, everybody sees the change; when it raises, nobody ever will."""
        token = self._session.gateway.token
        stages = [Statement(_STAGE, (token, change.to_json())) for change in self._changes]
        await self._session.backend.run(*stages, Statement("COMMIT"))
        self._open = False
        self._written.clear()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return
        self._open = False
        if not isinstance(error, BackendLostError):
            await self._session.backend.run(Statement("ROLLBACK"))
            # After a lost connection nobody knows whether the COMMIT was carried out: then the files stay.
            for result, table in self._written:
                await self._session.gateway.engine.discard(result, table.path)


def row_change(result: WriteResult, version: TableVersion) -> RowChange:
    """What to publish for a write: a delete file names its data file by ID, and the delete file that it replaces."""
    files = {file.path: file for file in version.files}
    deleted = {}
    for path, delete_file in result.delete_files.items():
        data_file = files[path]
        assert data_file.data_file_id is not None
        replaced = data_file.delete_file
        deleted[data_file.data_file_id] = (delete_file, None if replaced is None else replaced.delete_file_id)
    return RowChange(version.table.oid, result.data_files, deleted)
