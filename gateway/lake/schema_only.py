"""RENAME, SET SCHEMA, DROP TABLE, DROP INDEX: PostgreSQL carries them out, no row is looked at.

In a block they are deferred. So are COMMENT, GRANT, CREATE VIEW and the like where anything else is: they may build on
that.
"""

from __future__ import annotations

from gateway.lake.deferring import defer, may_defer
from gateway.lake.guarded import relay_statement
from gateway.lake.obligations import obligations
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import latest


class SchemaOnlyPortal(StatementPortal):
    """A change of the tables that the statement names, whose rows stay what they are."""

    async def run(self) -> None:
        session, deferred = self.session, self.session.transaction.deferred
        if await may_defer(session, self.routed.lake):
            await deferred.open()
            before = [(await latest(session, oid)).table for oid in self.routed.lake]
            tag = await relay_statement(session, self.binding)
            await defer(session, self.analysis, before, await obligations(session), renames=True)
        else:
            await deferred.settle()
            tag = await relay_statement(session, self.binding)
        session.client.send(CommandComplete(tag))
