"""A client's READ ONLY block, in which the gateway may write shadows (gateway.execution.reading.postgres_query).

PostgreSQL makes a block READ WRITE again only before its first query. But READ ONLY set in a savepoint ends with the
savepoint. So the backend's block is READ WRITE, and statements run in a READ ONLY savepoint, the *layer*. PostgreSQL
refuses writes there and shows the block as READ ONLY. The layer is always the innermost savepoint: the client's
savepoints are set below it, and a statement that removes the layer with them sets it again.

`lift` takes the layer away, for the gateway's own statements alone, and `restore` puts it back. A block that became
READ ONLY in any other way than by the BEGIN that began it, the default, a plain SET TRANSACTION READ ONLY, or one that
sets another level as well, before any query, has no layer, and stays what PostgreSQL makes of it; so does one that
exports a snapshot, which PostgreSQL does in no savepoint, or says BEGIN a second time.
"""

from __future__ import annotations

from typing import Final

from gateway.backend.connection import Backend
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import READ_ONLY
from planner.syntax.source_statement import Statement as SourceStatement
from planner.syntax.source_statement import known
from planner.syntax.transaction_commands import TransactionCommand
from planner.tree.long_text import holds_word

SHOWN: Final = Statement("SHOW transaction_read_only")
# For a client's statement within a savepoint of the gateway, with which the setting ends.
SET: Final = Statement("SET LOCAL transaction_read_only = on")
_READ_WRITE: Final = Statement("SET TRANSACTION READ WRITE")
_READ_ONLY: Final = Statement("SET TRANSACTION READ ONLY")
# PostgreSQL permits it outside of savepoints only.
_EXPORTS: Final = "pg_export_snapshot"
_SETTING: Final = (
    TransactionCommand.BEGIN,
    TransactionCommand.SET_TRANSACTION,
    TransactionCommand.SET_ISOLATION,
    TransactionCommand.SET_READ_ONLY,
    TransactionCommand.SET_READ_WRITE,
)


class ReadOnlyBlock:
    """The READ ONLY block of a session. `stands` while the layer makes the client's block READ ONLY, lifted or not."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.stands = False
        self._is_open = False
        self._has_savepoints = False  # whether the client has or had savepoints

    def clear(self) -> None:
        """The block has ended."""
        self.stands = self._is_open = self._has_savepoints = False

    @property
    def is_default(self) -> bool:
        """Whether blocks are READ ONLY by default."""
        return self._backend.parameters.get("default_transaction_read_only") == "on"

    async def begun(self) -> None:
        """A READ ONLY block has begun, without a query so far."""
        self.stands = True
        await self._backend.run(_READ_WRITE)
        await self.restore()

    async def lift(self) -> None:
        """Let the gateway's next statements at the backend write."""
        if self._is_open:
            await self._backend.run(READ_ONLY.release)
            self._is_open = False

    async def restore(self) -> None:
        """Forbid writes again, if the block is READ ONLY."""
        if self.stands and not self._is_open:
            await self._backend.run(READ_ONLY.begin, SET)
            self._is_open = True

    async def before(self, command: TransactionCommand, *, may_begin: bool) -> None:
        """Before a transaction command. `may_begin`: the block has done nothing that rules the layer out."""
        if self._backend.status == b"I":
            self.clear()
        elif self._backend.status != b"T":
            return
        elif command is TransactionCommand.SAVEPOINT:
            self._has_savepoints = True
            await self.lift()
        elif command not in _SETTING or self._has_savepoints:
            return
        elif command is TransactionCommand.SET_READ_ONLY:
            if may_begin and not self._is_open:
                await self._backend.run(READ_ONLY.begin)
                self._is_open = True
        elif command in {TransactionCommand.SET_TRANSACTION, TransactionCommand.SET_ISOLATION}:
            await self.lift()  # the level is set outside of savepoints
        else:
            await self._leave()

    async def after(self, command: TransactionCommand, *, was_open: bool, was_asked: bool, read_only: bool) -> None:
        """BEGIN or SET TRANSACTION was carried out in a block, which is `read_only` as PostgreSQL shows it.

        `was_open`: the block is an older one. `was_asked`: a query may have been made in it.
        """
        if not was_open or (read_only and not was_asked):
            if read_only:
                await self.begun()
        elif command is TransactionCommand.SET_READ_ONLY and self._is_open:
            self.stands = read_only
        else:
            await self.restore()

    async def regained(self) -> None:
        """A client's savepoint was released or rolled back to, which removed the layer: set it again."""
        self._is_open = False
        self._backend.savepoints.clear()
        await self.restore()

    async def let(self, *statements: SourceStatement) -> None:
        """Before statements: remove the layer for good, if one is not permitted in a savepoint."""
        if self._is_open and not self._has_savepoints and any(map(exports_snapshot, statements)):
            await self._leave()

    async def _leave(self) -> None:
        if self._is_open:
            await self.lift()
            self.stands = False
            await self._backend.run(_READ_ONLY)


@known
def exports_snapshot(statement: SourceStatement) -> bool:
    """Whether the statement may call a function that exports a snapshot."""
    return holds_word(statement.text, _EXPORTS)
