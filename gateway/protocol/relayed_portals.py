"""Portals of the extended query protocol that PostgreSQL itself executes, and the pipeline of its answers.

Messages are relayed without waiting. Where the gateway sends an answer of its own, `_settle` first waits for theirs.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.connection import Backend, BackendLostError, Item
from gateway.backend.own_statement import Statement as OwnStatement
from gateway.backend.savepoints import TRIAL
from gateway.client.connection import Client
from gateway.node.gateway_context import GatewayContext
from gateway.protocol.simple_query import CALM, IN_BLOCKS_ONLY, in_blocks_only, warn_no_transaction
from gateway.session.backend_abort import fail, give_locks_back, leave_window
from gateway.session.constraint_modes import keep_modes, prepare_modes
from gateway.session.pipeline import Pipeline
from gateway.session.session_context import SessionContext, is_notice
from gateway.statement.passthrough_command import (
    Apart,
    Importing,
    PassthroughCommand,
    Preparing,
    check_passthrough,
)
from gateway.statement.reset_all import relay_reset_all
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from gateway.transaction.read_only_block import SHOWN
from gateway.transaction.transaction import COMMIT as _COMMIT
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ErrorResponse
from gateway.wire.states import State
from planner.syntax.statements import ConstraintModes
from planner.syntax.transaction_commands import Shown, TransactionCommand

_LEVEL: Final = OwnStatement("SHOW transaction_isolation")
_SNAPSHOT: Final = OwnStatement("SELECT")
_ONLY_IN_BLOCKS: Final = "SET TRANSACTION can only be used in transaction blocks"
_WRITES_NOTHING: Final = OwnStatement("SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NULL")
_SETTING: Final = frozenset(
    {TransactionCommand.BEGIN, TransactionCommand.SET_TRANSACTION, TransactionCommand.SET_ISOLATION}
)


class RelayedPortals(SessionContext):
    """Relays messages, passes their answers on in order, and executes what needs more than that."""

    def __init__(self, gateway: GatewayContext, client: Client, backend: Backend, user: str) -> None:
        super().__init__(gateway, client, backend, user)
        self._pipeline = Pipeline()
        # The backend has a portal that was not executed yet; the end of a window would remove it.
        self._holds_portal = False
        self._holds_other = False  # the same, when the portal was bound that was bound last
        self._is_calm = False  # as Routed has it, of the backend's portal without a name
        # For PostgreSQL, a message since the last Sync has taken a snapshot; the gateway's own Sync has ended it.
        self._took_snapshot = False

    async def _execute_at_backend(self, frame: Frame, command: PassthroughCommand | None, *, named: bool) -> None:
        """Execute a portal of the backend, with or without a name, whose statement does `command`."""
        self._disturb(command, named=named)
        if command is Apart.RESET_ALL and self.transaction.open:
            if await self._settle():
                await relay_reset_all(self, lambda: self._relay_to_end(frame))
        elif isinstance(command, Shown) and (level := self.transaction.untold_level) is not None:
            if await self._settle():
                self.client.send(answers.DataRow((level.encode(),)), answers.CommandComplete("SHOW"))
        elif isinstance(command, Preparing) and self.backend.status == b"T":
            if await self._settle():  # a portal bound outside of the savepoint would keep its locks
                await self.backend.run(TRIAL.begin, OwnStatement(command.sql), *TRIAL.undo)
                self.client.send(answers.CommandComplete("PREPARE"))
        elif command is None or isinstance(command, Shown | Preparing | Apart):
            check_passthrough(self, command)
            self.unsynced = self.unsynced or command is not Apart.NOTHING
            self._holds_portal = False
            self._relay(frame)
            if command is Apart.COPY:
                await self._settle()  # the next messages belong to the COPY
        elif self.backend.status == b"E":
            await self._execute_failed(frame)
        elif isinstance(command, ConstraintModes):
            await self._execute_modes(frame, command)
        elif isinstance(command, Importing):
            await self._import_snapshot(frame, command)
        else:
            await self._execute_command(frame, command)

    def _disturb(self, command: PassthroughCommand | None, *, named: bool) -> None:
        if (named or not self._is_calm) and command not in CALM:
            self.meanings.disturb()

    async def _execute_modes(self, frame: Frame, modes: ConstraintModes) -> None:
        """Execute a relayed SET CONSTRAINTS."""
        if not await self._settle():
            return
        beside = await prepare_modes(self, modes)
        if not beside and self.transaction.deferred.is_open:  # closing the window may have dropped the portal
            await self.backend.run(OwnStatement(modes.sql))
            beside = True
        if beside:
            await keep_modes(self, modes)
            self.client.send(answers.CommandComplete("SET CONSTRAINTS"))
            return
        if await self._relay_to_end(frame) and self.transaction.open:
            await keep_modes(self, modes)

    async def _execute_command(self, frame: Frame, command: TransactionCommand) -> None:
        """Execute a relayed transaction command, and wait for its outcome."""
        if not await self._settle():
            return
        await take_place(self, Place.BESIDE)
        if command in IN_BLOCKS_ONLY and self.transaction.implicit:
            raise in_blocks_only(command)
        command = command.unchained
        await self.transaction.before(command)
        if command is TransactionCommand.COMMIT:
            await self.transaction.prepare_client_commit()
        implicit, self.transaction.implicit = self.transaction.implicit, False
        hidden: SqlState | None = None
        if implicit and command is TransactionCommand.BEGIN:
            hidden = SqlState.ACTIVE_SQL_TRANSACTION  # a block of the gateway becomes the client's
        elif implicit and command in {TransactionCommand.COMMIT, TransactionCommand.ROLLBACK}:
            await warn_no_transaction(self)
        was_open = self.transaction.open
        took_snapshot, self._took_snapshot = self._took_snapshot, False
        if took_snapshot and command in _SETTING and not was_open:
            await self.fix_snapshot(sets=command is not TransactionCommand.BEGIN)
        self._relay(frame)
        if await self._settle(hidden):
            await self._end_implicit_transaction()
            if took_snapshot and command is TransactionCommand.BEGIN and not (was_open or self._holds_other):
                await self._begin_anew()
            await self.transaction.after(command, good=True)
        else:
            self.transaction.implicit = implicit

    async def fix_snapshot(self, *, sets: bool = False) -> None:
        """Before a command that PostgreSQL refuses once there is a snapshot: make it decide. `sets`: it is no BEGIN."""
        if sets and not self.pipelining:  # PostgreSQL takes the gateway's question for a statement of the client's
            await warn_no_transaction(self, _ONLY_IN_BLOCKS)
        await self.backend.run(_SNAPSHOT, sync=False)

    async def _begin_anew(self) -> None:
        """The client's block goes on with a pipeline whose snapshot fixes the level; the gateway needs another level at
        the backend, and may have to write there. So begin the block again, where the pipeline has written nothing.
        """
        level, read_only = [each.rows[0][0] or b"" for each in await self.backend.run(_LEVEL, SHOWN)]
        if _is_plain(level, read_only):
            return
        [writes_nothing] = await self.backend.run(_WRITES_NOTHING)
        if writes_nothing.rows[0][0] == b"t":
            mode = "ONLY" if read_only == b"on" else "WRITE"
            begin = OwnStatement(f"BEGIN ISOLATION LEVEL {level.decode()}, READ {mode}")
            await self.backend.run(_COMMIT)
            await self.backend.run(begin)

    async def _leave_level(self) -> None:
        """Before the gateway begins a block: end a pipeline's transaction that has another level or is READ ONLY, and
        has written nothing; the block could not begin in it.
        """
        if self.backend.at_rest or self._holds_portal or self.transaction.open:
            return
        level, read_only = [each.rows[0][0] or b"" for each in await self.backend.run(_LEVEL, SHOWN, sync=False)]
        if _is_plain(level, read_only):
            return
        [writes_nothing] = await self.backend.run(_WRITES_NOTHING, sync=False)
        if writes_nothing.rows[0][0] == b"t":
            await self._end_implicit_transaction()

    async def _import_snapshot(self, frame: Frame, command: Importing) -> None:
        if not await self._settle() or self.transaction.untold_level is None:
            return await self._execute_command(frame, TransactionCommand.SET_SNAPSHOT)
        await self.transaction.take_snapshot(command.sql)
        return self.client.send(answers.CommandComplete("SET"))

    async def _execute_failed(self, frame: Frame) -> None:
        """Execute a relayed transaction command in a failed transaction; later messages may be in a new transaction."""
        if await self._relay_to_end(frame):
            await self._end_implicit_transaction()
            await self.transaction.regained()

    async def _fail(self, error: SluiceError) -> None:
        """Send the error to the client, and make the backend's transaction fail too."""
        if not await self._settle():
            return  # an earlier message has failed, so PostgreSQL would have skipped this one
        self._pipeline.fail()
        if self.backend.status == b"T" or self.unsynced:
            await fail(self.backend)
        elif self.machine.state is State.EXTENDED_QUERY:
            await self.backend.run()
        if self.backend.status == b"E":
            await give_locks_back(self)
        self.machine.sent(ErrorResponse)
        await self.client.say_error(error)

    async def _leave_window(self) -> None:
        try:
            await leave_window(self)
        except BackendLostError:
            raise
        except SluiceError as error:
            await self._fail(error)

    def _relay(self, frame: Frame) -> None:
        self.backend.send(frame.data)
        self._pipeline.sent(frame)

    async def _relay_to_end(self, frame: Frame) -> bool:
        self._relay(frame)
        return await self._settle()

    async def _settle(self, hidden: str | None = None) -> bool:
        """Wait for the answers to all relayed messages; False after an error, when the machine skips until Sync.

        Notices of the SQLSTATE `hidden` are left out.
        """
        if self._pipeline:
            self.backend.send(frontend.Flush().encode())
        while self._pipeline:
            await self.take(await self.next_item(), hidden)
        return self.machine.state is not State.SKIP_UNTIL_SYNC

    async def take(self, item: Item, hidden: str | None = None) -> None:
        """Pass on one answer of the backend to a relayed message."""
        if not isinstance(item, Frame):
            self.client.relay(item)
        elif not is_notice(item, hidden):
            await self.pass_on(item)
            self._pipeline.answered(item)
        await self.client.drain()

    @property
    def _is_alone(self) -> bool:
        """Whether no block or pipeline has work or a portal at the backend, which a Sync would end."""
        return not (self.transaction.open or self.unsynced or self.pipelining or self._holds_portal)

    async def _end_implicit_transaction(self) -> None:
        """Outside of a block, commit the pipeline's work at the backend: a lake statement has a transaction of its
        own.
        """
        self.unsynced = False
        await self.backend.run()


def _is_plain(level: bytes, read_only: bytes) -> bool:
    """Whether the gateway's blocks can go on with a transaction of this level."""
    return level in {b"read committed", b"read uncommitted"} and read_only == b"off"
