"""ALTER SEQUENCE in a block, of a sequence that others have too: it is deferred, and they go on with its numbers.

PostgreSQL locks the sequence until the block ends, and whoever wants a number waits. Here RESTART lets the block have
numbers from there on, of which it is noted how far they are given out (gateway/sequences_of_changes.py). Any other
option leaves the numbers where they are: once the block wants one, that is settled, for others would get it too.
"""

from __future__ import annotations

from gateway.lake.deferring import defer
from gateway.lake.schema_only import SchemaOnlyPortal
from gateway.range_variable import resolve
from gateway.sequences_of_changes import sequence_by_oid
from planner.alter import restarts_sequence


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
