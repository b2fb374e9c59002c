"""TRUNCATE: PostgreSQL truncates the shadows (privileges, RESTART IDENTITY), the lake removes the tables' files.

In a block it is deferred (gateway/transaction/transactional_ddl.py): the block sees empty tables, while other sessions
go on with their rows. COMMIT executes it, and also removes rows that others have committed by then, as if the whole
block came after them. Only COMMIT waits for users of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from catalog.publish import RowChange
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.lock_backoff import patiently
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.backend.shadow_truncate import past_guard
from gateway.execution.changes.row_changes import Changing
from gateway.execution.locks.table_locks import ACCESS_EXCLUSIVE, lock_tables, may
from gateway.execution.schema.change_in_block import may_step, take_steps
from gateway.execution.schema.deferred_validation import Deferral
from gateway.session.pending_constraints import refuse_pending
from gateway.session.visibility import used
from gateway.statement.portal import StatementPortal
from gateway.transaction.ddl_change import NoDemands
from gateway.transaction.ddl_sequences import owned_sequences
from gateway.transaction.enlistment import SchemaChangedError
from gateway.wire.messages.backend import CommandComplete

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Including the tables that CASCADE adds; without CASCADE, PostgreSQL has refused to leave out any.
_REFERRING: Final = """
WITH RECURSIVE truncated (oid) AS (
    SELECT pg_catalog.unnest($1::pg_catalog.oid[])
    UNION SELECT k.conrelid FROM pg_catalog.pg_constraint k JOIN truncated t ON k.confrelid OPERATOR(pg_catalog.=) t.oid
          WHERE k.contype OPERATOR(pg_catalog.=) 'f')
SELECT oid::pg_catalog.int8 FROM truncated
"""


class TruncatePortal(StatementPortal):
    """TRUNCATE of lake tables. No session waits behind it while it waits for users of the tables."""

    _statements: tuple[Statement, ...] = ()
    _closure: Sequence[int] = ()

    async def run(self) -> None:
        assert self.routed.query is not None
        # Temporary tables in the same statement are PostgreSQL's, which truncates them only once.
        are_shared = len(self.routed.query.utilityStmt.relations) == len(self.routed.lake)
        defers = await may_step(self, self.routed.lake if are_shared else None)
        async with Changing(self, "TRUNCATE TABLE") as changing:
            if defers:
                await take_steps(self, partial(self._in_window, changing))
            else:
                await self._carry_out(changing, locks=True)
            for oid in self._closure:
                changing.add(RowChange(oid, truncate=True))
            await changing.finish()
        self.session.client.send(CommandComplete("TRUNCATE TABLE"))

    async def _carry_out(self, changing: Changing, *, locks: bool) -> None:
        run = self.session.backend.run
        await run(TRIAL.begin)
        truncated, self._closure = await patiently(self.session.backend, partial(self._truncate, locks=locks))
        try:
            for oid in self._closure:
                await used(self.session, oid, self.analysis.mark, changing.mark, read=False)
        except SchemaChangedError:
            await run(*TRIAL.undo)
            raise
        await run(TRIAL.release)
        self.session.client.send(*truncated.notices)

    async def _truncate(self, *, locks: bool) -> tuple[Result, list[int]]:
        """Truncate the shadows and lock the tables; return PostgreSQL's messages, and all truncated tables."""
        session, tables = self.session, self.routed.lake
        statement = Statement(self.analysis.sql)
        async with session.cursors.occupying(tables):
            if not await may(session, tables, "TRUNCATE"):
                await session.backend.run(statement)
            locking = [lock_tables(tables, ACCESS_EXCLUSIVE)] if locks else []
            self._statements = await past_guard(session.backend, statement)
            *_, truncated, _, closure = await session.backend.run(*locking, *self._statements, _referring(tables))
        await refuse_pending(session, "TRUNCATE", _oids(closure))
        return truncated, _oids(closure)

    async def _in_window(self, changing: Changing) -> Deferral:
        await self._carry_out(changing, locks=False)
        session = self.session
        assert self.routed.query is not None
        restarts = self.routed.query.utilityStmt.fields.get("restart_seqs")
        restarted = [*(await owned_sequences(session.backend, self._closure)).values()] if restarts else []
        return Deferral(
            statements=self._statements,
            demands=_Emptying(session, self.routed.lake, self._closure),
            sequences=restarted,
            in_windows=tuple(each.restart() for each in restarted),
        )


class _Emptying(NoDemands):
    """The demands of a deferred TRUNCATE (gateway.transaction.transactional_ddl.Demands): exclusive locks at COMMIT,
    and no further tables that reference the `named` ones.
    """

    are_none = False

    def __init__(self, session: SessionContext, named: Sequence[int], tables: Iterable[int]) -> None:
        self._session = session
        self._named = named
        self.empties = frozenset(tables)
        self.locking = (lock_tables(sorted(self.empties), ACCESS_EXCLUSIVE),)

    async def meet(self) -> None:
        """Check that no further table references the named ones, which CASCADE would include."""
        [closure] = await self._session.backend.run(_referring(self._named))
        if not self.empties.issuperset(_oids(closure)):
            raise SluiceError(
                SqlState.SERIALIZATION_FAILURE,
                "could not serialize access: a schema has changed meanwhile",
                detail="Another table refers to one that the transaction has truncated.",
                hint="The transaction might succeed if retried.",
            )


def _referring(tables: Iterable[int]) -> Statement:
    return Statement(_REFERRING, (number_array(tables),))


def _oids(answer: Result) -> list[int]:
    return [int(oid or 0) for (oid,) in answer.rows]
