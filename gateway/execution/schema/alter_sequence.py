"""ALTER SEQUENCE in a block, of a sequence that other sessions can use: it is deferred, and they go on with its
numbers.

PostgreSQL locks the sequence until the block ends, so nextval waits. Here RESTART gives the block its own numbers from
there on, and records the last one (gateway/transaction/ddl_sequences.py). Other options keep the position: once the
block needs a number, the change is settled, because other sessions would get the same number.
"""

from __future__ import annotations

from gateway.execution.schema.deferred_validation import Deferral
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.statement.range_variable import resolve
from gateway.transaction.ddl_sequences import sequence_by_oid
from planner.syntax.alter_text import restarts_sequence


class AlterSequencePortal(SchemaOnlyPortal):
    """ALTER SEQUENCE, except RENAME, SET SCHEMA and OWNER TO."""

    async def _in_window(self) -> Deferral:
        session = self.session
        assert self.routed.query is not None
        oid = await resolve(session, self.routed.query.utilityStmt.sequence)
        self._tag = await self._patiently()
        restarted = None
        if oid is not None and restarts_sequence(self.routed.query.utilityStmt):
            restarted = await sequence_by_oid(session.backend, oid)
        sequences = () if restarted is None else (restarted,)
        return Deferral(renames=restarted is None, sequences=sequences, recounts=restarted is None)
