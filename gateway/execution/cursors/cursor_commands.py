"""DECLARE, FETCH and MOVE of cursors over the lake. CLOSE is the backend's own: see `gateway.session.cursors`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.backend.statement_timeout import timed_out
from gateway.execution.changes.standing_rows import StandingRows
from gateway.execution.cursors.locked_cursor import LockedCursorRows
from gateway.execution.cursors.unlocked_cursor import UnlockedCursorRows
from gateway.execution.reading.plan_context import output_settings, read, session_values_and
from gateway.execution.reading.query_rows import check_rows
from gateway.execution.reading.select import RowSender
from gateway.execution.shadow.function_guard import relay_statement
from gateway.session.cancel_listener import attending
from gateway.session.cursors import CREATED, over_nothing
from gateway.session.lake_cursor import Cursor, Declaration, Direction, Keeping, Sink
from gateway.statement.passthrough_command import check_in_block
from gateway.statement.portal import Binding, Portal, StatementPortal, with_formats
from gateway.statement.prepared_statements import Prepared, bind
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.values import OutputSettings
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CommandComplete, PortalSuspended, RowDescription
from planner.plans.locking_plan import strongest
from planner.plans.routes import HOLD
from planner.tree.nodes import name_of
from storage.spool.row_spool import KeptRows

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

# The bits of DeclareCursorStmt.options (parsenodes.h).
_BINARY: Final = 0x1
_SCROLL: Final = 0x2
_DECLARED: Final = f"SELECT {CREATED}, is_scrollable FROM pg_catalog.pg_cursors WHERE name OPERATOR(pg_catalog.=) $1"
_numbers: Final = itertools.count(1)


class DeclarePortal(StatementPortal):
    """DECLARE: the backend declares the cursor over the shadows, and the gateway plans its query on the present
    snapshot. Spark starts at the first FETCH.
    """

    async def run(self) -> None:
        session, inner, inner_routed = self.session, self.routed.inner, self.routed.inner_routed
        assert self.routed.query is not None
        assert inner is not None
        assert inner_routed is not None
        statement = self.routed.query.utilityStmt
        name, options = name_of(statement.portalname), int(statement.options)
        holds = bool(options & HOLD)
        if session.has_portal(name):
            raise SluiceError("42P03", f'cursor "{name}" already exists')
        if holds:
            await session.transaction.begin()
        else:
            check_in_block(session)
        tag = await relay_statement(session, self.binding)
        form = 1 if options & _BINARY else 0
        ends = holds and session.transaction.implicit and session.simple and session.ends_with_statement
        await _add(
            session,
            name,
            inner,
            inner_routed,
            self.binding,
            formats=(form,),
            executed_formats=(0,),
            options=options,
            updatable=not ends,
        )
        if ends:
            await session.transaction.commit()
        session.client.send(CommandComplete(tag))


async def bind_portal(
    session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding, message: frontend.Bind
) -> None:
    """The protocol's Bind of a query to a named portal, which is a cursor for FETCH, MOVE and CLOSE too.

    It lives as long as the transaction, or the pipeline if there is no block.
    """
    if not session.transaction.open:
        await session.transaction.begin()
    await bind(session.backend, message)
    await _add(
        session,
        message.portal,
        analysis,
        routed,
        binding,
        formats=(0,),
        executed_formats=binding.result_formats,
        options=0,
    )


async def _add(
    session: SessionContext,
    name: str,
    analysis: Analysis,
    routed: Routed,
    binding: Binding,
    *,
    formats: tuple[int, ...],
    executed_formats: tuple[int, ...],
    options: int,
    updatable: bool = True,
) -> None:
    """Add a cursor that the backend has just made."""
    [declared] = await session.backend.run(Statement(_DECLARED, (name,)))
    created, scrolls = declared.rows[0]
    assert created is not None
    reading = await read(session, analysis, binding, routed.lake)
    tag = f"{session.tag}/cursor-{next(_numbers)}"
    locks = strongest(routed.query) is not None
    paths: Sequence[str] = ()
    standing: StandingRows | None = None
    if locks:
        locking = LockedCursorRows(session, analysis, routed, binding)
        run, places, standing = locking.run, await locking.begin(reading), locking.standing
    else:
        await check_rows(session, routed, reading)
        rows = UnlockedCursorRows(session, analysis, routed, binding, reading, tag, updatable=updatable)
        run, places, paths = rows.run, rows.places, rows.paths
    keeping, holds = Keeping.NONE, bool(options & HOLD)
    stands_in = session.transaction.deferred.is_open
    if stands_in:
        created = await _stand_in(session, name, options)
    if scrolls == b"t":
        keeping = Keeping.ALL if options & _SCROLL or holds else Keeping.WHILE_FEW
    columns = analysis.columns or ()
    declaration = Declaration(
        name,
        int(created),
        with_formats(columns, formats),
        with_formats(columns, executed_formats),
        keeping,
        holds,
        tag,
        places,
        locks,
        paths,
        routed.lake,
        routed.lake if stands_in else (),
        rewinds=scrolls == b"t" and not stands_in,
    )
    waiting = partial(attending, session, leaves_window=False)
    await session.cursors.add(Cursor(declaration, run, waiting, standing))
    if session.transaction.deferred.savepoints:
        await session.cursors.watch()


async def _stand_in(session: SessionContext, name: str, options: int) -> bytes:
    """Close the window in which a cursor was declared: the backend gets a cursor over no table in its place. Returns
    its creation time.
    """
    await take_place(session, Place.BESIDE)
    declare = over_nothing(name, binary=bool(options & _BINARY), holds=bool(options & HOLD))
    _, declared = await session.backend.run(declare, Statement(_DECLARED, (name,)))
    created = declared.rows[0][0]
    assert created is not None
    return created


async def fetched_columns(session: SessionContext, prepared: Prepared | None) -> RowDescription | None:
    """What a prepared FETCH returns from a cursor in whose place the backend has one over nothing; else None."""
    cursor = None if prepared is None else prepared.routed.cursor
    if cursor is None or not session.cursors.is_stood_in_for(cursor.declared.name):
        return None
    present = await session.cursors.find(cursor.declared.name, sync=False)
    return None if present is None else RowDescription(with_formats(present.declared.columns, (0,)))


@dataclass(frozen=True, slots=True)
class Present:
    """The session's settings at the time of a fetch."""

    output: OutputSettings
    timeout: float | None


async def present_cursor(session: SessionContext, name: str) -> tuple[Cursor | None, Present]:
    """The lake's cursor of that name, None if there is none any more, and the session's settings.

    Raises if the transaction is doomed. The cursor's own tables are unchanged: the backend's cursor locks them.
    """
    values, timeout, mark, [alive] = await session_values_and(session, session.cursors.question(name))
    cursor = await session.cursors.found(name, alive)
    if cursor is not None and not cursor.held:
        await session.transaction.enlistment.judge(mark)
    return cursor, Present(output_settings(values), timeout)


class FetchPortal(Portal):
    """FETCH and MOVE. As in PostgreSQL the cursor moves completely at once: with a row limit, its rows are kept."""

    def __init__(self, session: SessionContext, _: Analysis, routed: Routed, binding: Binding) -> None:
        assert routed.query is not None
        assert routed.cursor is not None
        self._statement = routed.query.utilityStmt
        self.session = session
        if not self._statement.ismove:
            columns = routed.cursor.declared.columns
            self.columns = columns if binding.raw_query is not None else with_formats(columns, binding.result_formats)
        self._announced = False
        self._kept: KeptRows | None = None
        self._sent = 0
        self._settings: Present | None = None

    async def execute(self, limit: int) -> None:
        if self.started:
            await self._send_kept(limit)
            return
        self.started = True
        async with self.session.timeouts.out_of_window():
            await self._fetch(limit)

    async def _fetch(self, limit: int) -> None:
        session = self.session
        name = name_of(self._statement.portalname)
        cursor, self._settings = await present_cursor(session, name)
        if cursor is None:
            raise SluiceError(SqlState.INVALID_CURSOR_NAME, f'cursor "{name}" does not exist')
        sink: Sink | None = None
        if self.columns is not None:
            sink = self._keep if limit else self._announced_first(RowSender(session, self.columns, self._settings))
        direction, count = Direction(int(self._statement.direction)), int(self._statement.howMany)
        number = await _timed(cursor, self._settings, session, lambda: cursor.fetch(direction, count, sink))
        if self.columns is not None and limit:
            await self._send_kept(limit)
            return
        self._announce_once()
        session.client.send(CommandComplete(f"{'MOVE' if self.columns is None else 'FETCH'} {number}"))

    def _announced_first(self, sender: RowSender) -> Sink:
        async def send(batch: pa.RecordBatch) -> None:
            self._announce_once()
            await sender.send(batch)

        return send

    def _announce_once(self) -> None:
        if not self._announced:
            self._announced = True
            self.announce()

    async def _keep(self, batch: pa.RecordBatch) -> None:
        if self._kept is None:
            self._kept = KeptRows(batch.schema)
        if self._kept.on_disk:
            await asyncio.to_thread(self._kept.append, batch)
        else:
            self._kept.append(batch)

    async def _send_kept(self, limit: int) -> None:
        assert self.columns is not None
        assert self._settings is not None
        total = 0 if self._kept is None else self._kept.end
        end = min(total, self._sent + limit) if limit else total
        begin = self._sent
        sender = RowSender(self.session, self.columns, self._settings)
        while self._kept is not None and self._sent < end:
            batch = await asyncio.to_thread(self._kept.after, self._sent, end)
            await sender.send(batch)
            self._sent += batch.num_rows
        if limit and self._sent - begin == limit:
            self.session.client.send(PortalSuspended())
        else:
            self.session.client.send(CommandComplete(f"FETCH {self._sent - begin}"))

    async def close(self) -> None:
        if self._kept is not None:
            self._kept.close()


class ExecutedCursorPortal(Portal):
    """The protocol's Execute of a cursor; portals and cursors are the same."""

    def __init__(self, session: SessionContext, cursor: Cursor, present: Present) -> None:
        self.session = session
        self.columns = cursor.declared.executed
        self._cursor = cursor
        self._present = present

    async def execute(self, limit: int) -> None:
        cursor = self._cursor
        self.session.client.describe(cursor.declared.executed)
        sender = RowSender(self.session, cursor.declared.executed, self._present)
        number = await _timed(cursor, self._present, self.session, lambda: cursor.execute(limit, sender.send))
        message = CommandComplete(f"SELECT {number}") if cursor.at_end else PortalSuspended()
        self.session.client.send(message)


async def _timed(cursor: Cursor, present: Present, session: SessionContext, run: Callable[[], Awaitable[int]]) -> int:
    """Run a cursor's query under its own name, so that a CancelRequest and statement_timeout stop it alone."""
    with session.cancellable(cursor.declared.tag):
        try:
            async with asyncio.timeout(present.timeout):
                return await run()
        except TimeoutError:
            session.gateway.engine.cancel(cursor.declared.tag)
            raise timed_out() from None
