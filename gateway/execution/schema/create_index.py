"""CREATE INDEX, DROP INDEX and REINDEX, as far as they do more than change the shadow.

CREATE INDEX is a change of its table's schema (`gateway.execution.schema.alter_table`). Every such change works
CONCURRENTLY; see `planner.syntax.concurrently_option`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.execution.changes.shadow_execution import send_own
from gateway.execution.schema.alter_table import AlterPortal
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.statement.passthrough_command import refuse_in_block
from gateway.wire.messages.backend import NoticeResponse
from planner.syntax.concurrently_option import concurrent_command, plainly, said_concurrently
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

_CASCADE: Final = 1  # DropBehavior of parsenodes.h
_HEAD_BYTES: Final = 5


def alter_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> AlterPortal:
    """ALTER TABLE, or CREATE INDEX."""
    assert routed.query is not None
    concurrently = concurrent_command(routed.query.utilityStmt) is not None
    return (_CreateConcurrentlyPortal if concurrently else AlterPortal)(session, analysis, routed, binding)


class _CreateConcurrentlyPortal(AlterPortal):
    async def run(self) -> None:
        check_alone(self.session, "CREATE INDEX CONCURRENTLY")
        await super().run()

    async def _send(self) -> None:
        assert self.routed.query is not None
        sql = plainly(self.routed.query.utilityStmt, self.analysis.sql)
        await send_own(self.session, sql, self.binding, ())


class PlainlyPortal(SchemaOnlyPortal):
    """DROP INDEX CONCURRENTLY and REINDEX CONCURRENTLY, executed without CONCURRENTLY."""

    async def run(self) -> None:
        query = self.routed.query
        assert query is not None
        check_alone(self.session, f"{concurrent_command(query.utilityStmt)} CONCURRENTLY")
        _check_drop(query.utilityStmt)
        await super().run()

    async def _carry_out(self) -> str:
        query = self.routed.query
        assert query is not None
        if query.utilityStmt.fields.get("relation") or query.utilityStmt.type != "REINDEXSTMT":
            return await super()._carry_out()
        # All tables of a schema: PostgreSQL uses a transaction for each.
        return await self._relay()

    async def _relay(self) -> str:
        tag = await super()._relay()
        self._answers[:] = map(_concurrently, self._answers)
        return tag

    async def _send(self) -> None:
        assert self.routed.query is not None
        sql = plainly(self.routed.query.utilityStmt, self.analysis.sql)
        await send_own(self.session, sql, self.binding, ())


def _concurrently(answer: bytes) -> bytes:
    """A message of PostgreSQL's, with the wording of CONCURRENTLY."""
    if answer[0] != NoticeResponse.type:
        return answer
    notice = NoticeResponse.decode(answer[_HEAD_BYTES:], strict=False)
    fields = ((code, said_concurrently(text) if code == "M" else text) for code, text in notice.fields)
    return NoticeResponse(tuple(fields)).encode()


def _check_drop(utility: Node) -> None:
    """Raise errors that PostgreSQL raises for CONCURRENTLY only."""
    what = "DROP INDEX CONCURRENTLY does not support"
    if utility.type == "DROPSTMT" and len(utility.objects) > 1:
        raise SluiceError(SqlState.FEATURE_NOT_SUPPORTED, f"{what} dropping multiple objects")
    if utility.type == "DROPSTMT" and int(utility.behavior) == _CASCADE:
        raise SluiceError(SqlState.FEATURE_NOT_SUPPORTED, f"{what} CASCADE")


def check_alone(session: SessionContext, command: str) -> None:
    """Raise 25001 in a transaction block, including several statements in one query."""
    refuse_in_block(session, command)
    if not session.ends_with_statement:
        raise SluiceError(SqlState.ACTIVE_SQL_TRANSACTION, f"{command} cannot run inside a transaction block")
