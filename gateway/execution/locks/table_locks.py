"""LOCK TABLE on lake tables, with PostgreSQL's modes and waiting (table_locks.sql).

In a block with deferred changes, the client's locks are taken outside of windows, so that they last and others wait
for these alone. Tables are identified by OID there, because windows may rename them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from gateway.execution.shadow.function_guard import relay_statement
from gateway.statement.portal import StatementPortal
from gateway.statement.range_variable import resolve
from gateway.wire.messages.backend import CommandComplete

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# What LOCK TABLE needs in any mode, and what is enough besides in the weakest ones (LockTableAclCheck in lockcmds.c).
_PRIVILEGES: Final = "UPDATE, DELETE, TRUNCATE, MAINTAIN"
_ALSO: Final = {"ACCESS SHARE": ", SELECT, INSERT", "ROW SHARE": ", INSERT", "ROW EXCLUSIVE": ", INSERT"}
_ALLOWED: Final = """
SELECT coalesce(pg_catalog.bool_and(pg_catalog.has_table_privilege(relid, $2)), true)
FROM pg_catalog.unnest($1::pg_catalog.oid[]) relid
"""

ACCESS_SHARE: Final = "ACCESS SHARE"
ROW_SHARE: Final = "ROW SHARE"
ROW_EXCLUSIVE: Final = "ROW EXCLUSIVE"
EXCLUSIVE: Final = "EXCLUSIVE"
ACCESS_EXCLUSIVE: Final = "ACCESS EXCLUSIVE"
# LOCKMODE of lockdefs.h.
MODES: Final = {
    1: ACCESS_SHARE,
    2: ROW_SHARE,
    3: ROW_EXCLUSIVE,
    4: "SHARE UPDATE EXCLUSIVE",
    5: "SHARE",
    6: "SHARE ROW EXCLUSIVE",
    7: EXCLUSIVE,
    8: ACCESS_EXCLUSIVE,
}


def lock_tables(oids: Iterable[int], mode: str, *, nowait: bool = False) -> Statement:
    """Lock tables until the transaction ends."""
    return catalog_calls.lock_tables(oids, mode, nowait=nowait)


def lock_relations(oids: Iterable[int], mode: str, *, nowait: bool, lasting: bool = False) -> Statement:
    """Lock relations by their OIDs, whatever the client may, until the savepoint or the transaction ends. `lasting` is
    that of `Statement`."""
    return catalog_calls.lock_relations(oids, mode, nowait=nowait, lasting=lasting)


async def may(session: SessionContext, oids: Iterable[int], privileges: str) -> bool:
    """Whether the client has one of these privileges on each of the tables. If not, PostgreSQL raises the error, and
    no lock is taken or waited for.
    """
    [answer] = await session.backend.run(Statement(_ALLOWED, (number_array(oids), privileges)))
    return answer.rows[0][0] == b"t"


class LockTablePortal(StatementPortal):
    """LOCK TABLE: waits for transactions that use the tables, then blocks others."""

    async def run(self) -> None:
        session, deferred = self.session, self.session.transaction.deferred
        assert self.routed.query is not None
        statement = self.routed.query.utilityStmt
        mode, nowait = MODES[statement.mode], bool(statement.nowait)
        # PostgreSQL raises the errors for missing relations, and outside of a block.
        found = [await resolve(session, each) for each in statement.relations] if session.transaction.open else [None]
        oids = [oid for oid in found if oid is not None]
        if len(oids) == len(found) and await may(session, oids, _PRIVILEGES + _ALSO.get(mode, "")):
            locks = [lock_tables(oids, mode, nowait=nowait)]
            if deferred.pending:
                locks.append(lock_relations(oids, mode, nowait=nowait, lasting=True))
            try:
                async with deferred.stepping_out():
                    await session.backend.run(*locks)
            except SluiceError as error:
                if nowait and error.sqlstate == SqlState.LOCK_NOT_AVAILABLE:
                    name = statement.relations[0].relname
                    text = f'could not obtain lock on relation "{name}"'
                    raise SluiceError(SqlState.LOCK_NOT_AVAILABLE, text) from error
                raise
        tag = await relay_statement(session, self.binding)
        session.client.send(CommandComplete(tag))
