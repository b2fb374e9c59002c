"""Fires deferred triggers of users: PostgreSQL has their events in its own queue, and fires them over filled shadows.

A statement that queues such events is not undone at the backend (`gateway.execution.filling.filled_shadows`): rows
leave the shadows, and the events stay, with the rows of their time, the role that queued them, and PostgreSQL's rules
for savepoints and SET CONSTRAINTS. Before COMMIT the gateway has SET CONSTRAINTS fire them, like any other statement
that fires triggers, as often as they queue further ones.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gateway.backend.analysis import Analysis, SchemaMark
from gateway.backend.arrays import number_array
from gateway.backend.encoded_statement import encode_statement
from gateway.backend.own_statement import Statement
from gateway.backend.statement_timeout import timed_out
from gateway.execution.functions.trigger_statement import TriggeredPortal
from gateway.execution.reading.function_tables import likely_tables, trigger_texts
from gateway.execution.shadow.function_guard import guarding, relay_rows
from gateway.session.constraint_modes import ASKED, modes_from
from gateway.session.session_timeouts import STATEMENT_TIMEOUT
from gateway.statement.portal import Binding
from gateway.statement.routed import Routed
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.wire.messages import frontend
from planner.plans.routes import Route
from planner.tree.compact_tree import TreeText

if TYPE_CHECKING:
    from gateway.session.response_spool import ResponseSpool
    from gateway.session.session_context import SessionContext
    from planner.syntax.statements import ConstraintModes

_MARK: Final = Statement("SELECT pg_sluice.schema_mark()")
_TRIGGERS: Final = f"""
SELECT pg_catalog.format('%I.%I', n.nspname, k.conname), k.oid::bigint, t.tginitdeferred, {ASKED}
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_constraint k ON k.oid OPERATOR(pg_catalog.=) t.tgconstraint
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) k.connamespace
WHERE t.tgrelid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) AND t.tgdeferrable AND NOT t.tgisinternal
    AND k.contype OPERATOR(pg_catalog.=) 't'
"""
_DEFER_AGAIN: Final = "SELECT pg_catalog.set_config('sluice.late', $1, true)"


async def fire_late(session: SessionContext, modes: ConstraintModes | None) -> None:
    """Fire pending triggers that SET CONSTRAINTS … IMMEDIATE names, or all (None), until none is pending, at COMMIT.

    Their changes are staged. The transaction must be open; an error leaves it failed. 57014 after statement_timeout.
    """
    ends, session.ends_with_statement = session.ends_with_statement, False  # it does not end with these
    [limit] = await session.backend.run(Statement(f"SELECT {STATEMENT_TIMEOUT}"))
    timeout = asyncio.timeout(int(limit.rows[0][0] or 0) / 1000 or None)
    try:
        async with timeout:
            if modes is None:
                await _fire_all(session)
            elif modes.names is not None:
                await _fire(session, modes.sql, [])
            elif sql := (await _pending(session))[0]:
                await _fire(session, sql, [])
    except TimeoutError:
        if not timeout.expired():
            raise
        raise timed_out() from None
    finally:
        session.ends_with_statement = ends


async def _fire_all(session: SessionContext) -> None:
    # As PostgreSQL checks a foreign key before a trigger whose name is in lower case.
    await session.transaction.validate_now(None)
    while True:
        sql, deferred = await _pending(session)
        if not sql:
            return
        if not await _fire(session, sql, deferred):
            break
    async with guarding(session):  # nothing is pending any more, and nothing may become so
        await session.backend.run(Statement(_DEFER_AGAIN, ("",)), Statement(sql))
    await session.transaction.read_only.lift()  # what they have staged is published


async def _pending(session: SessionContext) -> tuple[str, list[int]]:
    """The statement that fires what may be pending, empty for nothing; and the triggers that are deferred now."""
    tables = number_array(session.transaction.late.tables)
    [found] = await session.backend.run(Statement(_TRIGGERS, (tables,)))
    names, deferred = ["pg_sluice.pg_sluice_late"], []
    for name, oid, initially, asked in found.rows:
        modes = modes_from(asked)
        names.append(str(name or b"", "utf-8"))
        if modes.get(str(int(oid or 0)), modes.get("all", initially == b"t")):
            deferred.append(int(oid or 0))
    return f"SET CONSTRAINTS {', '.join(names)} IMMEDIATE" if found.rows else "", deferred


async def _fire(session: SessionContext, sql: str, deferred: list[int]) -> bool:
    """Fire what is pending, while the `deferred` triggers stay so for what is queued meanwhile; whether something may
    have been."""
    [mark] = await session.backend.run(_MARK)
    analysis = Analysis(sql, TreeText(""), SchemaMark.of(mark.rows[0][0]))
    return await _FiringPortal(session, analysis, Routed(Route.GUARDED), Binding()).fire(deferred)


class _FiringPortal(TriggeredPortal):
    """SET CONSTRAINTS … IMMEDIATE, as the client."""

    _deferred = "{}"

    async def fire(self, deferred: list[int]) -> bool:
        session = self.session
        await take_place(session, Place.SETTLED)
        shadows = await self.shadows()
        shadows.must_last = True
        self._deferred = number_array(deferred) if deferred else ""
        tables = set(session.transaction.late.tables)
        texts, _ = await trigger_texts(session, tables)
        likely, shadows.words = await likely_tables(session, texts)
        learnt = session.gateway.store.triggers.needed.setdefault((session.user, frozenset({0, *tables})), set())
        wanted = tables | likely
        await self.hear(shadows, wanted)
        await self.over_rows(shadows, wanted, wanted - learnt)
        learnt |= self.looked_at
        return shadows.defers

    async def perform(self, answers: ResponseSpool | None) -> str:
        session = self.session
        await session.backend.run(Statement(_DEFER_AGAIN, (self._deferred,)))
        # Under the gateway's own names: the client's portal without a name may be that of COMMIT.
        session.backend.send_in_utf8([encode_statement(Statement(self.analysis.sql))], frontend.Sync())
        return await relay_rows(session, answers)
