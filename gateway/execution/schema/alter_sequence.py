"""ALTER SEQUENCE in a block, of a sequence that other sessions can use: it is deferred, and they go on with its
numbers.

PostgreSQL locks the sequence until the block ends, so nextval waits. Here RESTART gives the block its own numbers from
there on, and records the last one (gateway/transaction/ddl_sequences.py). Other options keep the position: once the
block needs a number, the change is settled, because other sessions would get the same number.
"""

from __future__ import annotations

from gateway.execution.schema.deferred_validation import defer
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.statement.range_variable import resolve
from gateway.transaction.ddl_sequences import sequence_by_oid
from planner.syntax.alter_text import restarts_sequence


class AlterSequencePortal(SchemaOnlyPortal):
    """ALTER SEQUENCE, except RENAME, SET SCHEMA and OWNER TO."""

    async def _defer(self) -> str:
        session = self.session
        assert self.routed.query is not None
        await session.transaction.deferred.open()
        oid = await resolve(session, self.routed.query.utilityStmt.sequence)
        tag = await self._patiently()
        restarted = None
        if oid is not None and restarts_sequence(self.routed.query.utilityStmt):
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
