"""RENAME, SET SCHEMA, DROP TABLE, DROP INDEX: PostgreSQL carries them out, no row is looked at.

In a block they are deferred. So are COMMENT, GRANT, CREATE VIEW and the like where anything else is: they may build on
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.lake.deferring import defer, may_defer
from gateway.lake.guarded import relay_rows, send_statement
from gateway.lake.obligations import obligations
from gateway.messages.backend import CommandComplete
from gateway.patience import patiently
from gateway.portal import StatementPortal
from gateway.visibility import latest

if TYPE_CHECKING:
    from gateway.analysis import Analysis
    from gateway.exchange import Exchange
    from gateway.portal import Binding
    from gateway.routing import Routed


class SchemaOnlyPortal(StatementPortal):
    """A change of the tables that the statement names, whose rows stay what they are."""

    def __init__(self, session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self._answers: list[bytes] = []

    async def run(self) -> None:
        session, transaction = self.session, self.session.transaction
        if await may_defer(session, self.routed.lake):
            await transaction.deferred.open()
            before = [(await latest(session, oid)).table for oid in self.routed.lake]
            tag = await patiently(session.backend, self._relay)
            await defer(session, self.analysis, before, await obligations(session), renames=True)
        else:
            await transaction.deferred.settle()
            await transaction.begin()
            tag = await patiently(session.backend, self._relay)
            if transaction.implicit and session.ends_with_statement:
                await transaction.commit()
        for answer in self._answers:
            session.client.write(answer)
        session.client.send(CommandComplete(tag))

    async def _relay(self) -> str:
        self._answers.clear()
        async with self.session.cursors.occupying(self.routed.lake):
            send_statement(self.session, self.binding)
            return await relay_rows(self.session, self._answers)
