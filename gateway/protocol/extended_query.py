"""The extended query protocol of a session: prepared statements and portals, of the lake and of the backend.

Statements that PostgreSQL answers are relayed without waiting. `_settle` waits for their answers before the gateway
sends an answer of its own. So the client gets all answers in the order of its messages. Source: PostgreSQL
documentation, "Message Flow", "Extended Query".
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import SluiceError, SqlState
from gateway.backend.activity import SHOWN_MAX
from gateway.backend.analysis import NOTHING
from gateway.backend.bind_parameters import bind_in_utf8, canonical_parameters
from gateway.backend.connection import Backend
from gateway.backend.own_names import OWN, refuse_own_savepoint
from gateway.client.connection import Client
from gateway.execution.changes.select_locking import locks_rows
from gateway.execution.cursors.cursor_commands import ExecutedCursorPortal, bind_portal, fetched_columns, present_cursor
from gateway.execution.dispatch import open_portal
from gateway.node.gateway_context import GatewayContext
from gateway.protocol.named import BoundPortal, PreparedStatement, PreparedStatements, description
from gateway.protocol.relayed_portals import RelayedPortals
from gateway.protocol.schema_retry import must_be_alike, run_retrying
from gateway.session import as_of
from gateway.session.cancel_listener import check
from gateway.session.name_journal import ByName
from gateway.session.offload import offloaded
from gateway.session.repeated_execution import ending_with
from gateway.session.statement_analysis import analysed
from gateway.statement import statement_windows
from gateway.statement.kept_analyses import is_kept
from gateway.statement.passthrough_command import (
    Apart,
    PassthroughCommand,
    Preparing,
    passthrough_command,
    split_and_look,
)
from gateway.statement.portal import Binding, Portal, result_formats, run_portal
from gateway.statement.prepared_statements import Prepared, check_bind, checked_after, described, renewed
from gateway.statement.routing import route
from gateway.statement.temporary_tables import stands
from gateway.statement.unlogged import read_logged
from gateway.statement.window_rules import Place
from gateway.transaction.read_only_block import exports_snapshot
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from planner.plans.routes import Route
from planner.syntax.statements import ConstraintModes, Statement, setting
from planner.syntax.transaction_commands import TransactionCommand, parses_with_snapshot


class ExtendedQuery(RelayedPortals):
    """Handles all messages of the extended protocol but Sync, which the session handles."""

    def __init__(self, gateway: GatewayContext, client: Client, backend: Backend, user: str) -> None:
        super().__init__(gateway, client, backend, user)
        journal = self._pipeline.journal
        self._statements = PreparedStatements(journal)
        self._portals: dict[str, BoundPortal] = {}
        # Relayed portals, with their effect on the transaction.
        self._portal_commands: ByName[PassthroughCommand] = ByName(journal)

    async def _parse(self, frame: Frame) -> None:
        if (read := await read_logged(self, frame, self._settle)) is None:
            return
        message, frame = read
        name, known = message.statement, self._statements.known(message.statement)
        if not name:
            self._statements.forget("")
            self._pipeline.begin()  # PostgreSQL has forgotten it, too, if the Parse fails
        # The backend refuses a second Parse of the same name, unless it is the empty name.
        self._statements[name] = PreparedStatement(known.lake if name else None, text=message.query[:SHOWN_MAX])
        statements = await offloaded(self, size := len(message.query), split_and_look, message.query, as_of.NAME)
        self.note_names(statements, later=True)
        self._note_command(message, statements)
        if any(map(parses_with_snapshot, statements)):
            self._statements.change(name, snapshot=True)
            self._took_snapshot = True
        await self.transaction.pin(statements)
        if not await self._enter_parse(name, statements):
            return
        if self.backend.status == b"E" or await offloaded(self, size, statement_windows.need_no_look, self, statements):
            if self.backend.status != b"E" and len(statements) == 1 and setting(statements[0], as_of.NAME) is not None:
                if not await self._settle():
                    return
                await as_of.check_setting(self, statements[0])
            check(self)
            self._relay(frame)
            return
        if not await self._settle():
            return
        alone, types = self._is_alone, message.parameter_types
        analysis = await analysed(self, message.query, name=name, parameter_types=types, sync=alone)
        routed = await route(self, analysis)
        if alone:
            await self._end_implicit_transaction()  # for PostgreSQL, the gateway's questions are a pipeline
        place = await statement_windows.judge(self, routed)
        check(self)
        if routed.is_relayed and not self.transaction.deferred.pending:
            place = statement_windows.place_from_now_on(self, routed)
        self._statements.change(
            name,
            lake=Prepared(analysis, routed) if routed.late or not routed.is_relayed else None,
            place=place if routed.is_relayed else None,
            publishes=routed.publishes,
            naming=self.namings,
        )
        self.client.send(*analysis.notices)
        self.send_noted(answers.ParseComplete())

    def _note_command(self, message: frontend.Parse, statements: Sequence[Statement]) -> None:
        command: PassthroughCommand | None = None
        if len(statements) == 1:
            command = passthrough_command(statements[0])
            refuse_own_savepoint(statements[0], command, failed=self.backend.status == b"E")
            if isinstance(command, Preparing):
                command = Preparing(message.query)  # pg_prepared_statements shows this text, comments included
        command = command or Apart.of(statements)
        if command is not None:
            self._statements.change(message.statement, command=command)

    async def _bind(self, frame: Frame) -> None:
        message = await self.encoding.read(frontend.Bind, frame)
        self._check_named(message.statement)
        known = self._statements.known(message.statement)
        self._took_snapshot = self._took_snapshot or known.snapshot
        prepared = None if self.backend.status == b"E" else known.lake  # in a failed block, PostgreSQL refuses it
        self._portal_commands.forget(message.portal)
        is_sure = not (message.statement and self.is_named_since(known.naming))
        if prepared is not None and is_sure and stands(self, prepared.routed):
            await self._bind_relayed(frame, message, looked=False, is_calm=True)
            return
        is_standing = is_sure and is_kept(self, prepared, message)
        if self.transaction.deferred.pending and self.backend.status == b"T":
            if not await self._settle():
                return
            await self._enter_bind(message, prepared)
        looked = prepared is not None or (not is_sure and self.backend.status != b"E")
        following = NOTHING if prepared is None or prepared.relayed else checked_after(message, self.encoding)
        if looked:
            if not await self._settle():
                return
            name, alone = message.statement, self._is_alone
            if not is_standing:
                prepared = await renewed(self, name, prepared, is_sure=is_sure, sync=alone, following=following)
        if prepared is None or prepared.relayed:
            if prepared is not None and prepared.routed.late:
                self._statements.change(message.statement, lake=prepared, naming=self.namings)
            is_calm = prepared is not None and prepared.routed.is_calm
            await self._bind_relayed(frame, message, looked=looked, is_calm=is_calm)
            return
        if message.portal and message.portal in self._portals:
            raise SluiceError("42P03", f'cursor "{message.portal}" already exists')
        types = prepared.analysis.parameter_types
        if not (is_standing or following.closes):
            message = await bind_in_utf8(self.backend, self.encoding, message, types)
            await check_bind(self.backend, message, sync=False)
        await self._forget_portal(message.portal)
        self._statements.change(message.statement, lake=prepared, naming=self.namings)
        formats = result_formats(message.parameter_formats, len(types))
        binding = Binding(
            statement=message.statement,
            parameters=message.parameters,
            parameter_formats=formats,
            result_formats=message.result_formats,
            canonical=await canonical_parameters(self.backend, types, message.parameters, formats),
        )
        if message.portal and prepared.routed.route is Route.SELECT and not locks_rows(prepared.routed):
            await bind_portal(self, prepared.analysis, prepared.routed, binding, message)
        else:
            portal = await open_portal(self, prepared.analysis, prepared.routed, binding)
            portal.name = message.portal
            self._portals[message.portal] = BoundPortal(portal, prepared, binding)
        check(self)
        self.send_noted(answers.BindComplete())

    async def _bind_relayed(self, frame: Frame, message: frontend.Bind, *, looked: bool, is_calm: bool = False) -> None:
        """Relay a Bind; `looked`: the backend was asked about the statement just now; `is_calm`: see Routed."""
        await self._forget_portal(message.portal)
        if looked and not (self.transaction.open or self.unsynced or self._holds_portal):
            await self._end_implicit_transaction()  # BEGIN ISOLATION LEVEL … must come before any query
        known = self._statements.known(message.statement)
        if known.publishes and not self.transaction.open and not self.unsynced:
            if not await self._settle():
                return
            await self._end_implicit_transaction()
            await self.transaction.begin()
        if known.command is not None:
            self._portal_commands[message.portal] = known.command
        self._holds_other, self._holds_portal = self._holds_portal, True
        if not message.portal:
            self._is_calm = is_calm
        check(self)
        self._relay(frame)

    async def _enter_parse(self, name: str, statements: Sequence[Statement]) -> bool:
        """In a READ ONLY block or one with deferred changes, set savepoints and windows as the statement needs; False
        after an error.
        """
        if self.backend.status == b"T" and any(map(exports_snapshot, statements)):
            if not await self._settle():
                return False
            await self.transaction.read_only.let(*statements)
        if not self.transaction.deferred.pending:
            if len(statements) == 1 and statements[0].first_word == "select":
                self._statements.change(name, place=Place.WINDOW)  # for statements without an analysis
            return True
        if not await self._settle():
            return False
        await statement_windows.enter(self, statements)
        if len(statements) == 1 and statement_windows.is_beside(statements[0]):
            self._statements.change(name, place=Place.BESIDE)
        elif len(statements) == 1 and isinstance(self._statements.known(name).command, Preparing):
            self._statements.change(name, place=Place.WINDOW)
        return True

    async def _enter_bind(self, message: frontend.Bind, prepared: Prepared | None) -> None:
        """Before a portal is made: open or close the window, or settle the block, as the portal needs."""
        deferred, known = self.transaction.deferred, self._statements.known(message.statement)
        place, command = known.place, known.command
        if deferred.is_worn_out:
            await statement_windows.take_place(self, Place.SETTLED)
        elif place is Place.BESIDE:
            await statement_windows.take_place(self, Place.BESIDE)
        elif isinstance(command, ConstraintModes):
            await statement_windows.enter_modes(self, command)
        else:
            stays = prepared is not None and statement_windows.stays_in_window(self, prepared.routed)
            is_of_gateway = prepared is not None and not prepared.relayed
            # The window's end drops the backend's portals; a portal without a name is not bound again.
            is_bound_there = not message.portal and (place is Place.WINDOW or stays)
            in_window = is_bound_there or (is_of_gateway and stays)
            await statement_windows.take_place(self, Place.WINDOW if in_window else Place.SETTLED)

    async def _describe(self, frame: Frame) -> None:
        message = await self.encoding.read(frontend.Describe, frame)
        if message.kind == b"P" and (bound := self._portals.get(message.name)) is not None:
            await self._settle()
            self.send_noted(description(bound.portal.columns))
        elif message.kind == b"P" and self.cursors.is_stood_in_for(message.name):
            if await self._settle():
                await self._describe_cursor(frame, message.name)
        elif message.kind != b"S":
            self._relay(frame)
        else:
            await self._describe_statement(frame, message)

    async def _describe_statement(self, frame: Frame, message: frontend.Describe) -> None:
        self._check_named(message.name)
        known = self._statements.known(message.name)
        in_window = known.place is not Place.BESIDE
        of_lake = self.backend.status == b"T" and (known.lake is not None or self.namings > 0)
        if (in_window or of_lake) and not await self._settle():
            return
        if in_window:
            await self.transaction.deferred.see()
        if of_lake:
            columns = await fetched_columns(self, known.lake)
            for answer in await described(self.backend, message):
                self.send_noted(columns if columns and isinstance(answer, answers.RowDescription) else answer)
        else:
            self._relay(frame)

    async def _describe_cursor(self, frame: Frame, name: str) -> None:
        """Describe the lake's cursor of that name; the backend's cursor over the shadows has other columns."""
        cursor = await self.cursors.find(name, sync=False)
        if cursor is None:
            self._relay(frame)
        else:
            self.send_noted(description(cursor.declared.executed))

    def _check_named(self, statement: str) -> None:
        if not statement and "" not in self._statements:
            raise SluiceError(SqlState.INVALID_SQL_STATEMENT_NAME, "unnamed prepared statement does not exist")

    async def _execute(self, frame: Frame) -> None:
        name = (await self.encoding.read(frontend.Execute, frame)).portal
        command = None if name in self._portals else self._portal_commands.get(name)
        await self._execute_portal(frame)
        if command in (TransactionCommand.COMMIT, TransactionCommand.ROLLBACK):
            self.pipelining = False
        elif command is not Apart.NOTHING:
            self.pipelining = True

    async def _execute_portal(self, frame: Frame) -> None:
        message = await self.encoding.read(frontend.Execute, frame)
        bound = self._portals.get(message.portal)
        if bound is None:
            command = self._portal_commands.get(message.portal)
            if message.portal in self.cursors and self.backend.status != b"E":
                if not await self._settle():
                    return
                cursor, present = await present_cursor(self, message.portal)
                if cursor is not None:
                    await run_portal(ExecutedCursorPortal(self, cursor, present), message.limit_rows)
                    return
            await self._execute_at_backend(frame, command, named=bool(message.portal))
            return
        if not await self._settle():
            return
        await self.transaction.deferred.see()
        portal = bound.portal
        if not portal.started and not self.transaction.open:
            if self.unsynced or (self.pipelining and bound.prepared.routed.route is Route.LOCK):  # LOCK needs a block
                await self._leave_level()
                await self.transaction.begin()  # work of the pipeline at the backend becomes part of the block
            else:
                await self._end_implicit_transaction()
        with ending_with(self, portal.repetitions, whole=not (message.limit_rows or portal.name)):
            await run_retrying(portal, message.limit_rows, lambda hold: self._reopen(message.portal, hold))

    async def _reopen(self, name: str, hold: bool) -> Portal:
        """Make the portal again after a new analysis, because the schema has changed since Parse."""
        bound = self._portals[name]
        prepared = bound.prepared
        if hold:
            await self.transaction.hold_schemas(prepared.routed.lake)
        before = prepared.analysis
        analysis = await analysed(self, before.sql, name=OWN, parameter_types=before.parameter_types, sync=True)
        routed = await route(self, analysis)
        must_be_alike(before, analysis)
        prepared.analysis, prepared.routed, prepared.kept_at = analysis, routed, None
        await self._forget_portal(name)
        portal = await open_portal(self, analysis, routed, bound.binding)
        self._portals[name] = BoundPortal(portal, prepared, bound.binding)
        return portal

    async def _close(self, frame: Frame) -> None:
        message = await self.encoding.read(frontend.Close, frame)
        if message.kind == b"P" and message.name in self._portals:
            await self._settle()
            await self._forget_portal(message.name)
            self.send_noted(answers.CloseComplete())
            return
        if message.kind == b"S" and message.name in self._statements:
            self._statements.change(message.name, lake=None)
        self._relay(frame)

    async def _flush(self, _: Frame) -> None:
        if await self._settle() and not self._holds_portal:
            await self._leave_window()
        await self.client.drain()

    def has_portal(self, name: str) -> bool:
        return name in self._portals

    async def _forget_portal(self, name: str) -> None:
        bound = self._portals.pop(name, None)
        if bound is not None:
            await bound.portal.close()

    async def _close_portals(self) -> None:
        for name in list(self._portals):
            await self._forget_portal(name)
