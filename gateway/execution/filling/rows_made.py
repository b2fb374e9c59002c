"""Reads what a statement has made of rows in shadows. If it has only added rows, and many, these go to files as they
come, so that memory holds few of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.execution.changes.shadow_execution import rows_aside
from gateway.execution.shadow.shadow import shadow_rows
from gateway.execution.shadow.shadow_writer import ShadowWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.model import TableVersion
    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult

# More added rows than these are many.
FEW_ADDED: Final = 2_000


class Made(NamedTuple):
    """The rows that a statement made, unless they are `written`, those that it left, and which of these it locked."""

    fresh: pa.Table
    kept: pa.Table
    locked: pa.Table
    written: WriteResult | None

    @property
    def row_count(self) -> int:
        """How many rows it made."""
        return int(self.fresh.num_rows if self.written is None else self.written.row_count)


class RowsMade:
    """The rows in shadows of tables that are `known`, by OID: `questions` are asked of each, and their answers `read`,
    in the same order. Those of `many` are written.
    """

    def __init__(self, session: SessionContext, known: Mapping[int, TableVersion], many: Collection[int]) -> None:
        self._session = session
        self._known = known
        self._writers = {oid: ShadowWriter(session, known[oid].table) for oid in many}

    def questions(self, oid: int, conditions: Sequence[str]) -> list[Statement]:
        """The questions for `conditions` of gateway.execution.filling.taken_rows."""
        asked = [shadow_rows(self._known[oid].table, each) for each in conditions]
        return [self._writers[oid].reading(conditions[0]), *asked[1:]] if oid in self._writers else asked

    async def read(self, oid: int, answers: Iterator[Result]) -> Made:
        """The rows. Files that are written are the transaction's to remove, unless they are published."""
        table, transaction = self._known[oid].table, self._session.transaction
        bodies, written = [next(answers).bodies for _ in range(3)], None
        if oid in self._writers:
            await self._writers[oid].write_bodies(oid, bodies[0])
            written = await self._writers.pop(oid).finish()
            transaction.written.update(path.lstrip("/") for path in written.paths(table.path))
            bodies[0] = []
        fresh, kept, locked = [await rows_aside(table, each) for each in bodies]
        self._session.gateway.store.undone_rows.left(oid, fresh.num_rows)
        return Made(fresh, kept, locked, written)

    async def abort(self) -> None:
        """Remove what is written of rows that were not read."""
        for writer in self._writers.values():
            await writer.abort()
