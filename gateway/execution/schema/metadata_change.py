"""RENAME, SET SCHEMA, DROP, REINDEX: PostgreSQL executes them, and no row is read.

In a block they are deferred. So are changes of shared views and sequences; COMMENT, GRANT, CREATE VIEW and the like
are deferred if other changes are, because they may build on them. DROP SCHEMA … CASCADE and DROP OWNED drop at COMMIT
the tables that exist by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.backend.lock_backoff import patiently
from gateway.execution.constraints.constraint_validation import obligations
from gateway.execution.schema.change_at_once import at_once, is_alone
from gateway.execution.schema.change_in_block import Outcome, in_block
from gateway.execution.schema.deferred_validation import Deferral
from gateway.execution.shadow.function_guard import relay_rows, send_statement
from gateway.session.pending_constraints import refuse_pending
from gateway.session.visibility import latest
from gateway.statement.portal import StatementPortal
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.wire.messages.backend import CommandComplete

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed


class SchemaOnlyPortal(StatementPortal):
    """Changes that PostgreSQL alone executes, which may need locks of tables: those in `routed.lake`, or others that
    they do not name. No session waits behind them while they wait.
    """

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self._answers: list[bytes] = []
        self._tag = ""

    async def run(self) -> None:
        if not await self._is_made_in_block():
            self._tag = await self._carry_out()
        for answer in self._answers:
            self.session.client.write(answer)
        self.session.client.send(CommandComplete(self._tag))

    async def _is_made_in_block(self) -> bool:
        return await in_block(self, self.routed.lake, self._in_window)

    async def _carry_out(self) -> str:
        session, transaction = self.session, self.session.transaction
        # Kinds of it do more than let PostgreSQL execute the statement.
        if type(self) is SchemaOnlyPortal and is_alone(self) and (answer := await at_once(self)) is not None:
            self._answers[:] = [notice.encode() for notice in answer.notices]
            return answer.tag
        await take_place(session, Place.SETTLED)
        await transaction.begin()
        transaction.fresh = False
        tag = await self._patiently()
        if transaction.implicit and session.ends_with_statement:
            await transaction.commit()
        return tag

    async def _in_window(self) -> Deferral | Outcome:
        session, query = self.session, self.routed.query
        before = [(await latest(session, oid)).table for oid in self.routed.lake]
        self._tag = await self._patiently()
        renames = query is None or query.utilityStmt.type != "COMMENTSTMT"
        return Deferral(tables=before, wanted=await obligations(session), renames=renames)

    async def _patiently(self) -> str:
        """Let PostgreSQL execute it, taking locks in short attempts; return its tag."""
        return await patiently(self.session.backend, self._relay)

    async def _relay(self) -> str:
        self._answers.clear()
        query = self.routed.query
        if query is not None and query.utilityStmt.type == "DROPSTMT":
            await refuse_pending(self.session, "DROP TABLE", self.routed.lake)
        async with self.session.cursors.occupying(self.routed.lake):
            await self._send()
            return await relay_rows(self.session, self._answers)

    async def _send(self) -> None:
        await send_statement(self.session, self.binding)
