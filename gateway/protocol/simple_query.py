"""Executes a simple query: its statements in order, in one transaction unless they say otherwise.

Source: PostgreSQL 18 documentation, "Multiple Statements in a Simple Query". For PostgreSQL's implicit transaction
block, the gateway opens a block at the backend and ends it before ReadyForQuery.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from catalog.datatypes import TEXT
from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import Analysis
from gateway.backend.answers_to_the_end import to_the_end
from gateway.backend.own_names import OWN, refuse_own_savepoint
from gateway.backend.savepoints import TRIAL
from gateway.client.message_thread import aside
from gateway.execution.dispatch import open_portal
from gateway.protocol.schema_retry import run_retrying
from gateway.session import as_of
from gateway.session.cancel_listener import check
from gateway.session.constraint_modes import relay_modes
from gateway.session.offload import offloaded
from gateway.session.session_context import Sent, SessionContext, shift
from gateway.session.statement_analysis import analysed
from gateway.statement import statement_windows
from gateway.statement.passthrough_command import Apart, Preparing, passthrough_command, split_and_look
from gateway.statement.portal import Binding, Portal
from gateway.statement.reset_all import relay_reset_all
from gateway.statement.routing import route
from gateway.statement.temporary_tables import constants_shape, is_known
from gateway.statement.unlogged import CLIENT_MIN_MESSAGES, logged, tell
from gateway.statement.window_rules import Place
from gateway.transaction.read_only_block import exports_snapshot
from gateway.wire.framing import HEADER, HEADER_BYTES, LARGE_BYTES, Frame
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import (
    CommandComplete,
    DataRow,
    ErrorResponse,
    FieldDescription,
    NoticeResponse,
    ReadyForQuery,
    RowDescription,
)
from planner.plans.routes import Route
from planner.syntax.lexer import has_parameters
from planner.syntax.statements import ConstraintModes, Statement, setting
from planner.syntax.transaction_commands import Shown, TransactionCommand, transaction_command

IN_BLOCKS_ONLY: Final = (
    TransactionCommand.SAVEPOINT,
    TransactionCommand.RELEASE_SAVEPOINT,
    TransactionCommand.ROLLBACK_TO_SAVEPOINT,
    TransactionCommand.COMMIT_AND_CHAIN,
    TransactionCommand.ROLLBACK_AND_CHAIN,
)

# They change what names mean at most by ending a transaction.
CALM: Final = (
    TransactionCommand.BEGIN,
    TransactionCommand.COMMIT,
    TransactionCommand.ROLLBACK,
    TransactionCommand.SAVEPOINT,
)

_SETTING: Final = (
    TransactionCommand.SET_TRANSACTION,
    TransactionCommand.SET_ISOLATION,
    TransactionCommand.SET_SNAPSHOT,
    TransactionCommand.SET_READ_ONLY,
    TransactionCommand.SET_READ_WRITE,
)


_LEVEL: Final = RowDescription((FieldDescription(Shown.ISOLATION, 0, 0, TEXT, -1, -1),))


async def answer(session: SessionContext, frame: Frame) -> None:
    """Send all answers but ReadyForQuery; a block of the gateway may be left open.

    The session stays in a pipeline if one came before and the query has at most one statement.
    """
    text = (await session.encoding.read(frontend.Query, frame)).query
    if (instead := await logged(session, text)) is not None:
        await tell(session)
        text, frame = instead, Frame(frame.type, await session.encoding.encoded(frontend.Query(instead)))
    standard = session.backend.parameters.get("standard_conforming_strings", "on") == "on"
    statements = await offloaded(
        session, len(text), partial(split_and_look, text, as_of.NAME, standard_strings=standard)
    )
    session.note_names(statements)
    session.pipelining = session.pipelining and len(statements) < 2
    if not statements:
        await session.relay_query(frame.data)
        return
    if (
        session.backend.status != b"E"
        and not session.transaction.deferred.pending
        and await offloaded(session, len(text), _need_no_look, session, statements)
    ):
        await session.transaction.pin(statements)
        await session.relay_query(frame.data, is_calm=all(each.first_word == "select" for each in statements))
        return
    alone = len(statements) == 1
    if not alone:
        await _check_syntax(session, frame)
    for number, statement in enumerate(statements, 1):
        session.ends_with_statement = number == len(statements) and not (alone and session.pipelining)
        if not alone and number == len(statements):
            session.client.await_commit()  # an error of COMMIT comes in place of the last CommandComplete
        if alone:  # byte for byte, with comments and spaces around it
            sent = Sent(frame.data, 0, text[statement.offset :])
        else:
            raw = await session.encoding.encoded(
                frontend.Query(statement.text), is_large=len(statement.text) >= LARGE_BYTES
            )
            sent = Sent(raw, statement.offset, statement.text)
        if not await _answer_one(session, statement, sent, alone=alone):
            return
        await statement_windows.take_place(session, Place.BESIDE)


def _need_no_look(session: SessionContext, statements: Sequence[Statement]) -> bool:
    """Whether all statements can be relayed without an analysis."""
    return all(
        statement_windows.needs_no_look(session, statement)
        and passthrough_command(statement) is None
        and setting(statement, as_of.NAME) is None
        and not exports_snapshot(statement)
        for statement in statements
    )


async def _check_syntax(session: SessionContext, frame: Frame) -> None:
    """Have PostgreSQL parse the whole query, so that a syntax error prevents all of it.

    Asked to prepare several statements, PostgreSQL parses them, then refuses them without a position.
    """
    backend, in_block = session.backend, session.backend.status == b"T"
    if in_block:
        await backend.run(TRIAL.begin)
    # Without a name and types, in the client's encoding, unchanged.
    query = memoryview(frame.data)[HEADER_BYTES:]
    parse = HEADER.pack(frontend.Parse.type, len(query) + 7)
    backend.send(parse, b"\0", query, b"\0\0" + frontend.Sync().encode())
    refusal = await to_the_end(backend, _refusal(session))
    if in_block:
        await backend.run(*TRIAL.undo)
    if refusal is not None and (refusal.sqlstate != SqlState.SYNTAX_ERROR or "P" in refusal.fields):
        raise refusal


async def _refusal(session: SessionContext) -> SluiceError | None:
    refusal: SluiceError | None = None
    while True:
        item = await session.backend.next()
        assert isinstance(item, Frame)
        if item.type == ReadyForQuery.type:
            return refusal
        if item.type == ErrorResponse.type:
            refusal = (await session.encoding.read(ErrorResponse, item)).to_error()


async def _place(session: SessionContext, error: SluiceError, statement: Statement, sent: Sent, *, alone: bool) -> None:
    """Count an error's position in the whole query. What is behind a lone statement may be what a syntax error is
    about; PostgreSQL then says so of the client's query.
    """
    if alone and error.sqlstate == SqlState.SYNTAX_ERROR:
        try:
            await _check_syntax(session, Frame(frontend.Query.type, sent.raw))
        except SluiceError as refusal:  # of a failed block, or of what PostgreSQL does not know: EXPLAIN ALTER TABLE
            if refusal.message.endswith('";"'):
                raise
    shift(error, statement.offset)


async def _answer_one(session: SessionContext, statement: Statement, sent: Sent, *, alone: bool) -> bool:
    """Answer one statement; False if it failed at the backend, whose error has been sent."""
    command = transaction_command(statement)
    transaction = session.transaction
    session.begin_statement()
    failed = session.backend.status == b"E"
    refuse_own_savepoint(statement, command, failed=failed)
    if failed:
        return await _answer_failed(session, sent)
    if command is not None:
        return await _command(session, command, sent, alone=alone)
    if not alone:
        await transaction.begin()
    await transaction.pin((statement,))
    await transaction.read_only.let(statement)
    await statement_windows.enter(session, (statement,))
    check(session)
    if await offloaded(session, len(statement.text), statement_windows.needs_no_look, session, statement):
        return await _relay(session, statement, sent)
    shape = constants_shape(session, statement)
    if is_known(session, shape):
        return await session.relay_query(sent.raw, sent.offset, is_calm=True)
    return await _answer_analysed(session, statement, sent, shape, alone=alone)


async def _answer_analysed(
    session: SessionContext, statement: Statement, sent: Sent, shape: tuple[str, ...] | None, *, alone: bool
) -> bool:
    """Answer one statement by its analysis; `shape` is what it has in common with others."""
    transaction = session.transaction
    good = True
    lake: tuple[int, ...] = ()

    async def open_analysed(hold: bool) -> Portal | None:
        nonlocal good, lake
        if hold:
            await transaction.hold_schemas(lake)
        analysis = await _without_parameters(session, statement)
        if analysis is None:
            good = await session.relay_query(sent.raw, sent.offset)
            return None
        routed = await route(session, analysis)
        await statement_windows.judge(session, routed)
        if routed.publishes:  # with the isolation level of the gateway's blocks, not with the client's default
            await transaction.begin()
        if routed.route is Route.RELAY:
            session.meanings.learn(shape, routed.temporary_at)
            good = await session.relay_query(sent.raw, sent.offset, is_calm=routed.is_calm)
            return None
        lake = routed.lake
        session.client.send(*analysis.notices)
        query = frontend.Query(sent.text)
        raw = await aside(frontend.Query.encode, query, is_large=len(sent.text) >= LARGE_BYTES)
        return await open_portal(session, analysis, routed, Binding(raw_query=raw))

    portal: Portal | None = None
    try:
        portal = await open_analysed(False)
        portal = portal and await run_retrying(portal, 0, open_analysed)
    except SluiceError as error:
        await _place(session, error, statement, sent, alone=alone)
        raise
    finally:
        if portal is not None:
            await portal.close()
    return good


async def _without_parameters(session: SessionContext, statement: Statement) -> Analysis | None:
    """The statement, or None if it has parameters, which PostgreSQL then refuses with their position."""
    try:
        analysis = await analysed(session, statement.text, name=OWN, sync=True)
    except SluiceError:
        if not await offloaded(session, len(statement.text), has_parameters, statement.text):
            raise
        return None  # PostgreSQL's error is about the parameter, or there is none
    return None if analysis.parameter_types else analysis


async def _answer_failed(session: SessionContext, sent: Sent) -> bool:
    """Answer a statement in a failed transaction: usually the end of it or ROLLBACK TO SAVEPOINT."""
    good = await session.relay_query(sent.raw, sent.offset)
    await session.transaction.regained()
    return good


async def _relay(session: SessionContext, statement: Statement, sent: Sent) -> bool:
    """Relay a statement that PostgreSQL answers."""
    await as_of.check_setting(session, statement)
    command, in_block = passthrough_command(statement), session.backend.status == b"T"
    if isinstance(command, Shown) and (level := session.transaction.untold_level) is not None:
        session.client.send(_LEVEL, DataRow((level.encode(),)), CommandComplete("SHOW"))
        return True
    if isinstance(command, ConstraintModes):
        return await relay_modes(session, sent, command)
    if command is Apart.RESET_ALL and session.transaction.open:
        return await relay_reset_all(session, lambda: session.relay_query(sent.raw, sent.offset))
    if not (isinstance(command, Preparing) and in_block):
        return await session.relay_query(sent.raw, sent.offset)
    await session.backend.run(TRIAL.begin)
    good = await session.relay_query(sent.raw, sent.offset)
    if good:
        await session.backend.run(*TRIAL.undo)
    return good


async def _command(session: SessionContext, command: TransactionCommand, sent: Sent, *, alone: bool) -> bool:
    """Execute a transaction command."""
    transaction = session.transaction
    if command in IN_BLOCKS_ONLY and (transaction.implicit or not (alone or transaction.open)):
        raise in_blocks_only(command)
    chained, command = command is not command.unchained, command.unchained
    if command in _SETTING and not alone:
        await transaction.begin()
    if command in (TransactionCommand.COMMIT, TransactionCommand.ROLLBACK) and transaction.implicit:
        await warn_no_transaction(session)
    if command is TransactionCommand.SET_SNAPSHOT and transaction.open and transaction.untold_level is not None:
        await transaction.take_snapshot(sent.text)
        session.client.send(CommandComplete("SET"))
        return True
    await transaction.before(command)
    if command is TransactionCommand.COMMIT:
        await transaction.prepare_client_commit()
    # A block of the gateway becomes the client's; PostgreSQL gives no warning there.
    hidden = SqlState.ACTIVE_SQL_TRANSACTION if transaction.implicit and command is TransactionCommand.BEGIN else None
    is_calm = command in CALM and not chained
    good = await session.relay_query(sent.raw, sent.offset, hidden, is_calm=is_calm)
    await transaction.after(command, good=good)
    return good


def in_blocks_only(command: TransactionCommand) -> SluiceError:
    """PostgreSQL's error for SAVEPOINT, AND CHAIN and the like outside of a transaction block."""
    return SluiceError(SqlState.NO_ACTIVE_SQL_TRANSACTION, f"{command.value} can only be used in transaction blocks")


async def warn_no_transaction(session: SessionContext, said: str = "there is no transaction in progress") -> None:
    """Send PostgreSQL's warning for COMMIT or ROLLBACK outside of a transaction block, or another one that is `said` of
    a command there, if the client wants warnings.
    """
    [level] = await session.backend.run(CLIENT_MIN_MESSAGES, sync=session.simple)
    if level.rows[0][0] == b"error":
        return
    fields = {"S": "WARNING", "V": "WARNING", "C": SqlState.NO_ACTIVE_SQL_TRANSACTION.value}
    session.client.send(NoticeResponse((*fields.items(), ("M", said))))
