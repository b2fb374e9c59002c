"""VACUUM and ANALYZE: PostgreSQL checks the statement and processes the shadows, the gateway the lake.

PostgreSQL first executes the client's statement over the empty shadows: so syntax, privileges, warnings and 25001 are
its own. Then lake files are compacted, statistics computed, and old snapshots expired.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from catalog.background import end
from catalog.errors import SqlState
from catalog.maintenance.expiry import expire
from catalog.maintenance.maintenance_settings import maintenance_settings
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from gateway.execution.maintenance.analyze import analyze, note_size
from gateway.execution.shadow.function_guard import relay_rows, send_statement
from gateway.node.compaction import Compaction, Pace
from gateway.session import as_of
from gateway.session.cancel_listener import check
from gateway.statement.passthrough_command import refuse_in_block
from gateway.statement.portal import StatementPortal
from gateway.statement.range_variable import resolve
from gateway.wire.messages import backend as answers
from gateway.wire.messages.backend import CommandComplete, NoticeResponse
from planner.syntax.vacuum_options import VacuumCommand, vacuum_command
from storage.maintenance.compaction import Policy

if TYPE_CHECKING:
    from catalog.maintenance.compaction import Turn
    from gateway.session.session_context import SessionContext

_RELATIONS: Final = "SELECT relid::bigint FROM pg_sluice.relation"
# vacuum_is_permitted_for_relation in vacuum.c; each table comes with a name for messages.
_PERMITTED: Final = """
SELECT c.oid::pg_catalog.int8, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) AND (pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')
    OR pg_catalog.pg_has_role((SELECT datdba FROM pg_catalog.pg_database
                               WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()), 'USAGE'))
ORDER BY c.oid
"""
_OWN_SCHEMAS: Final = ("pg_sluice", "pg_ducklake")
_WATCH_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 3.0
_HEAD_BYTES: Final = 5
_T = TypeVar("_T")


class VacuumPortal(StatementPortal):
    """VACUUM, ANALYZE and VACUUM ANALYZE with lake tables among their tables."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        command = vacuum_command(self.routed.query.utilityStmt)
        if command is not None and command.vacuums and not session.transaction.open:
            refuse_in_block(session, "VACUUM")  # in a block PostgreSQL does, after it has read the options
        await self.ask_limit()
        kept: list[bytes] = []
        await send_statement(session, self.binding)
        tag = await relay_rows(session, kept)
        lake = await self._tables(command) if command is not None else {}
        for frame in kept:
            if not _is_about_shadows(frame, lake.values()):
                session.client.write(frame)
        lake = {oid: name for oid, name in lake.items() if not any(_skips(frame, name[1]) for frame in kept)}
        if command is not None:
            await self._carry_out(command, lake)
        session.client.send(CommandComplete(tag))

    async def _tables(self, command: VacuumCommand) -> dict[int, tuple[str, str]]:
        """The lake tables of the statement that the client may maintain: schema and name."""
        wanted = list(self.routed.lake)
        if not command.tables:
            wanted = [row["relid"] for row in await self.session.gateway.store.fetch(_RELATIONS)]
        listed = number_array(wanted)
        [found] = await self.session.backend.run(Statement(_PERMITTED, (listed,)))
        return {int(oid or 0): ((schema or b"").decode(), (name or b"").decode()) for oid, schema, name in found.rows}

    async def _carry_out(self, command: VacuumCommand, lake: dict[int, tuple[str, str]]) -> None:
        session = self.session
        columns: dict[int, tuple[str, ...]] = {}
        for table in command.tables:
            oid = await resolve(session, table.relation)
            if oid is not None:
                columns[oid] = table.columns
        if command.vacuums:
            await self._stop_reading()
        for oid, name in lake.items():
            if command.vacuums:
                await self._vacuum(command, oid, name)
                await note_size(session, oid)
            if command.analyzes:
                self._inform(command, f'analyzing "{".".join(name)}"')
                found = await cancellable(session, analyze(session, oid, columns.get(oid, ())))
                self._inform(command, f'"{name[1]}": {found.sampled} rows in sample, {found.rows} rows in all')
        if command.vacuums and lake:
            settings = await maintenance_settings(session.gateway.store.pool)
            gone = await cancellable(
                session, expire(session.gateway.store.pool, settings.retention, session.gateway.engine.remove)
            )
            self._inform(command, f"{gone.snapshots} snapshots expired, {gone.files} files removed")

    async def _stop_reading(self) -> None:
        """Pin nothing: the maintenance pins its own snapshots. A snapshot that is chosen still stays."""
        session = self.session
        session.reading.end()
        [chosen] = await session.backend.run(Statement(f"SELECT {as_of.UNDERSTOOD}"))
        if not chosen.rows[0][0]:
            await session.reading.choose(None)

    async def _vacuum(self, command: VacuumCommand, oid: int, name: tuple[str, str]) -> None:
        session = self.session
        shown = ".".join((session.gateway.database, *name))
        self._inform(command, f'vacuuming "{shown}"')
        turn = await take_turn(session, oid, waits=not command.skips_locked)
        if turn is None:
            text = f'skipping vacuum of "{name[1]}" --- lock not available'
            session.client.send(NoticeResponse.of("WARNING", SqlState.LOCK_NOT_AVAILABLE, text))
            return
        begun = time.monotonic()
        try:
            settings = await maintenance_settings(session.gateway.store.pool)
            policy = Policy(
                2,
                settings.small_bytes,
                settings.waste,
                all_files=command.full,
                hot_rows=True,
                file_bytes=settings.file_bytes,
            )
            pace = Pace(float("inf") if command.full else _PATIENCE_SECONDS)
            done = await cancellable(session, Compaction(session.gateway, turn, pace).run(oid, policy))
        finally:
            await turn.close()
        left = "" if done.gave_way is None else f"; others are left, for {done.gave_way}"
        self._inform(
            command,
            f'finished vacuuming "{shown}": {done.files_before} files became {done.files_after}, of {done.rows} rows, '
            f"{done.bytes_before} bytes became {done.bytes_after}{left}; {time.monotonic() - begun:.2f} s",
        )

    def _inform(self, command: VacuumCommand, text: str) -> None:
        if command.verbose:
            self.session.client.send(NoticeResponse.of("INFO", SqlState.SUCCESSFUL_COMPLETION, text))


async def take_turn(session: SessionContext, oid: int, *, waits: bool) -> Turn | None:
    """Take the turn to replace a table's files, when it is free; None if it is taken and not `waits`."""
    while (turn := await session.gateway.store.take_turn(oid)) is None and waits:
        await cancellable(session, asyncio.sleep(_WATCH_SECONDS))
    return turn


async def cancellable(session: SessionContext, work: Coroutine[Any, Any, _T]) -> _T:
    """Run work that a CancelRequest ends with 57014."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_WATCH_SECONDS)
            if not task.done():
                check(session)
        return task.result()
    finally:
        if not task.done():
            await end(task)


def _skips(frame: bytes, name: str) -> bool:
    """Whether PostgreSQL's message says that it skips the table, because it is locked."""
    if frame[0] != NoticeResponse.type:
        return False
    fields = dict(answers.NoticeResponse.decode(frame[_HEAD_BYTES:]).fields)
    return fields["C"] == SqlState.LOCK_NOT_AVAILABLE and f'"{name}"' in fields["M"]


def _is_about_shadows(frame: bytes, names: Sequence[tuple[str, str]] | Any) -> bool:
    """Whether PostgreSQL's message describes an empty shadow, or objects that clients do not know."""
    if frame[0] != NoticeResponse.type:
        return False
    fields = dict(answers.NoticeResponse.decode(frame[_HEAD_BYTES:]).fields)
    text = fields["M"]
    if fields.get("V") != "INFO":
        return any(f'"{schema}.' in text for schema in _OWN_SCHEMAS)
    if any(f"{schema}." in text for schema in (*_OWN_SCHEMAS, "pg_toast")):
        return True
    return any(f'{schema}.{name}"' in text or f'"{name}":' in text for schema, name in names)
