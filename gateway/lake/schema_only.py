"""RENAME, SET SCHEMA, DROP TABLE, DROP INDEX: PostgreSQL carries them out, no row is looked at.

In a block they are deferred. So are COMMENT, GRANT, CREATE VIEW and the like where anything else is: they may build on
that. What drops or changes tables that it does not name (DROP SCHEMA … CASCADE, DROP OWNED) is never deferred, but is
as patient (gateway/patience.py).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gateway.attention import check
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


class PatientPortal(StatementPortal):
    """What PostgreSQL alone carries out, and may need the locks of tables for that it does not name: DROP SCHEMA …
    CASCADE, DROP TYPE, DROP OWNED. Nobody waits behind it while it waits."""

    def __init__(self, session: Exchange, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        self._answers: list[bytes] = []

    async def run(self) -> None:
        tag = await self._carry_out()
        for answer in self._answers:
            self.session.client.write(answer)
        self.session.client.send(CommandComplete(tag))

    async def _carry_out(self) -> str:
        session, transaction = self.session, self.session.transaction
        await transaction.deferred.settle()
        await transaction.begin()
        transaction.fresh = False
        tag = await patiently(session.backend, self._relay, partial(check, session))
        if transaction.implicit and session.ends_with_statement:
            await transaction.commit()
        return tag

    async def _relay(self) -> str:
        self._answers.clear()
        async with self.session.cursors.occupying(self.routed.lake):
            await send_statement(self.session, self.binding)
            return await relay_rows(self.session, self._answers)


class SchemaOnlyPortal(PatientPortal):
    """A change of the tables that the statement names, whose rows stay what they are."""

    async def _carry_out(self) -> str:
        session, transaction = self.session, self.session.transaction
        if not await may_defer(session, self.routed.lake):
            return await super()._carry_out()
        await transaction.deferred.open()
        before = [(await latest(session, oid)).table for oid in self.routed.lake]
        tag = await patiently(session.backend, self._relay, partial(check, session))
        await defer(session, self.analysis, before, await obligations(session), renames=True)
        return tag
