"""WITH … INSERT … ON CONFLICT whose query in WITH changes the same table (`with_parts.reads_late`).

PostgreSQL begins that query at the first conflict, after it has locked a row. So the statement is not split, but runs
as a whole in the shadow, over all of the table's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.errors import unsupported
from catalog.model import Column, TableVersion
from gateway.execution.changes.upsert import UpsertQueryPortal
from gateway.execution.reading.plan_context import read

# CmdType of nodes.h.
_CMD_DELETE: Final = 4
_CMD_MERGE: Final = 5


class UpsertWithPortal(UpsertQueryPortal):
    """All changes of the statement are of one table."""

    @property
    def _deletes(self) -> bool:
        query = self.routed.query
        assert query is not None
        return any(int(node.ctequery.commandType) in (_CMD_DELETE, _CMD_MERGE) for node in query.cteList)

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:  # noqa: ARG002
        self._reading = await read(self.session, self.analysis, self.binding, self.routed.lake)
        self._refusal = unsupported("ON CONFLICT that reads a data-modifying statement in WITH")
