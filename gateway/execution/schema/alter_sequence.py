"""ALTER SEQUENCE in a block, of a sequence that others have too: it is deferred, and they go on with its numbers.

PostgreSQL locks the sequence until the block ends, and whoever wants a number waits. Here RESTART lets the block have
numbers from there on, of which it is noted how far they are given out (gateway/transaction/ddl_sequences.py). Any other
option leaves the numbers where they are: once the block wants one, that is settled, for others would get it too.
"""

from __future__ import annotations

from gateway.execution.schema.deferred_validation import defer
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.statement.range_variable import resolve
from gateway.transaction.ddl_sequences import sequence_by_oid
from planner.syntax.alter_text import restarts_sequence


class AlterSequencePortal(SchemaOnlyPortal):
    """ALTER SEQUENCE but for RENAME, SET SCHEMA and OWNER TO."""

    async def _defer(self) -> str:
        session = self.session
        assert self.routed.query is not None
        await session.transaction.deferred.open()
        oid = await resolve(session, self.routed.query.utilityStmt.sequence)
        tag = await self._patiently()
        restarted = None
        if oid is not None and restarts_sequence(self.analysis.sql):
            restarted = await sequence_by_oid(session.backend, oid)
        await defer(
            session,
            self.analysis,
            (),
            (),
            renames=restarted is None,
            sequences=() if restarted is None else (restarted,),
            recounts=restarted is None,
        )
        return tag
