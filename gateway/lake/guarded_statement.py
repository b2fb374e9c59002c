"""DO, CALL, queries of functions made by users: PostgreSQL carries them out, watched (`gateway.lake.guarded`).

What they change of schemas it changes in the shadows; rows that are there are looked at when it has, as for ALTER TABLE
in a block that is settled. Others who use these tables wait meanwhile.
"""

from __future__ import annotations

from gateway.lake.guarded import REFUSE_REWRITING, guarding, relay_statement
from gateway.lake.obligations import meet, obligations
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal


class GuardedPortal(StatementPortal):
    """Relays a statement inside a transaction, and looks before anything comes after it: at what it has read and
    written, at columns that would have to be computed, and at rows for which it has made constraints or indexes."""

    async def run(self) -> None:
        session, transaction = self.session, self.session.transaction
        await transaction.begin()
        async with guarding(session):
            tag = await relay_statement(session, self.binding)
        await session.backend.run(REFUSE_REWRITING)
        if wanted := await obligations(session):
            await meet(session, wanted)
        if transaction.implicit and session.ends_with_statement:
            await transaction.commit()
        if tag:
            session.client.send(CommandComplete(tag))
