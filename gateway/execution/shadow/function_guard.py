"""Detects reads of lake tables that are not in a statement's tree: in DO, CALL, and user-defined functions.

A function that reads a lake table would find its empty shadow, and give a wrong answer without an error. Rows that it
writes would be in the shadow alone. So scans and writes of shadows are counted around the statement, and a statement
with any is refused afterwards.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend import catalog_calls
from gateway.backend.answers_to_the_end import to_the_end
from gateway.backend.arrays import number_array
from gateway.backend.encoded_statement import encode_messages
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import GUARDED
from gateway.client.encoding import read
from gateway.session.constraint_modes import KEEP_OWN
from gateway.session.response_spool import ResponseSpool
from gateway.statement.portal import Binding, StatementPortal
from gateway.transaction.isolation_level import TELL_DEFAULT
from gateway.transaction.transaction import BEGIN
from gateway.wire.framing import LARGE_BYTES, Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CommandComplete
from gateway.wire.messages.layout import Message

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.connection import Result
    from gateway.session.repeated_execution import Repetitions
    from gateway.session.session_context import SessionContext

_SCANS: Final = "SELECT pg_sluice.shadow_scans($1::pg_catalog.oid[], $2::bigint)"
NEWEST: Final = Statement("SELECT pg_sluice.newest_table()")
# Scans by DDL do not count (catalog/sql/scans.sql).
WATCHED, UNWATCHED = (
    Statement(f"SELECT pg_catalog.set_config('sluice.watched', '{state}', true)") for state in ("on", "off")
)
SCANS: Final = Statement(_SCANS, ("{}", None))
REFUSE_REWRITING: Final = Statement("SELECT pg_sluice.refuse_rewriting()")
_WRITES: Final = "SELECT name, rows FROM pg_sluice.shadow_writes($1::pg_catalog.oid[])"
# Suspending unvalidated constraints updates these three catalogs; statements that make or drop objects change more of
# them.
_CHANGES: Final = """
SELECT pg_catalog.sum(pg_catalog.pg_stat_get_xact_tuples_inserted(oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_deleted(oid)
    OPERATOR(pg_catalog.+) CASE
        WHEN oid OPERATOR(pg_catalog.<>) ALL (
            '{pg_catalog.pg_constraint,pg_catalog.pg_index,pg_catalog.pg_attribute}'::pg_catalog.regclass[])
        THEN pg_catalog.pg_stat_get_xact_tuples_updated(oid) ELSE 0 END)
FROM pg_catalog.pg_class
WHERE relkind OPERATOR(pg_catalog.=) 'r' AND oid OPERATOR(pg_catalog.<>) $1::bigint::pg_catalog.oid
    AND relnamespace OPERATOR(pg_catalog.<>) ALL ('{pg_sluice,pg_ducklake}'::pg_catalog.regnamespace[])
"""
# The same while PostgreSQL makes tables of the gateway's: of its own catalogs, those of large objects count.
CHANGES_OF_USERS: Final = Statement("""
SELECT pg_catalog.sum(pg_catalog.pg_stat_get_xact_tuples_inserted(oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_updated(oid)
    OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_xact_tuples_deleted(oid))
FROM pg_catalog.pg_class
WHERE relkind OPERATOR(pg_catalog.=) 'r' AND (
    oid OPERATOR(pg_catalog.=) ANY (
        '{pg_catalog.pg_largeobject,pg_catalog.pg_largeobject_metadata}'::pg_catalog.regclass[])
    OR relnamespace OPERATOR(pg_catalog.<>) ALL ('{pg_catalog,pg_sluice,pg_ducklake}'::pg_catalog.regnamespace[]))
""")


# The answers to the gateway's own messages around the client's statement.
_UNTOLD: Final = (
    answers.ParseComplete.type, answers.BindComplete.type, answers.CloseComplete.type, answers.NoData.type,
)  # fmt: skip
_FORWARDED: Final = (answers.ParameterStatus.type, answers.NotificationResponse.type)
_HEAD_BYTES: Final = 5
_OTHER: Final = f"{OWN}_other"
_OF_NO_SHADOW: Final = (SqlState.LOCK_NOT_AVAILABLE, SqlState.FEATURE_NOT_SUPPORTED)


@asynccontextmanager
async def guarding(session: SessionContext, *filled: int, undone_in: int | None = None) -> AsyncIterator[None]:
    """Surrounds work of the backend, in a transaction: raise 0A000 if a function has read or written a lake table.

    Shadows in `filled` (OIDs) have rows, and may be used. If everything will be undone for the sake of rows in one
    shadow, 0A000 is also raised if a function has changed anything else.
    """
    backend = session.backend
    await session.cursors.watch()
    session.run_functions()
    alone = backend.status == b"I"
    oids = number_array(filled)
    changes = written(filled) if undone_in is None else changes_beside(undone_in)
    session.own_changes = None if undone_in is None else 0
    try:
        # Later tables have no scans yet; so the first question need not exclude them.
        questions = [NEWEST, Statement(_SCANS, (oids, None)), changes, WATCHED, GUARDED.begin]
        begun = [BEGIN, TELL_DEFAULT] if alone else []
        newest, *before, _, _ = (await backend.run(*begun, *questions))[len(begun) :]
        questions = [Statement(_SCANS, (oids, newest.rows[0][0])), changes]
        try:
            yield
        except SluiceError as error:
            # The empty shadow may be the reason of an error. Not of one that may be retried for a lock
            # (gateway.backend.lock_backoff), or that is a refusal already.
            if backend.status == b"E" and error.sqlstate not in _OF_NO_SHADOW:
                _, after_error = await backend.run(GUARDED.again, questions[0])
                await session.cursors.check_unmoved()
                _check_scans(before[0], after_error)
            raise
        _, *after, _, _ = await backend.run(GUARDED.release, *questions, UNWATCHED, KEEP_OWN)
        await session.cursors.check_unmoved()
        _check_scans(before[0], after[0])
        if undone_in is None:
            check_written(before[1], after[1])
        elif count_of(after[1]) != count_of(before[1]) + (session.own_changes or 0):
            raise unsupported("a function that changes a table while it makes rows of another")
        if alone:
            await backend.run(Statement("COMMIT"))
    except SluiceError:
        if alone and backend.status != b"I":
            await backend.run(Statement("ROLLBACK"))
        raise
    finally:
        session.own_changes = None


def changes_beside(shadow: int) -> Statement:
    """The question how many rows the transaction has changed in all tables but a shadow and the gateway's own."""
    return Statement(_CHANGES, (str(shadow),))


def count_of(result: Result) -> int:
    """The answer to `changes_beside`."""
    [[number]] = result.rows
    return int(number or 0)


def _check_scans(before: Result, after: Result) -> None:
    if after.rows != before.rows:
        raise unsupported("a function that reads a lake table")


def scans(newest: bytes | None) -> Statement:
    """The question how often the transaction has scanned shadows, except of tables that it has made since `newest`."""
    return Statement(_SCANS, ("{}", newest))


def written(filled: Collection[int]) -> Statement:
    """The question for rows that the transaction has put into shadows, except `filled` ones: see `check_written`."""
    return Statement(_WRITES, (number_array(filled),))


def check_written(before: Result, after: Result) -> None:
    """Raise 0A000 if rows have been put into a shadow since."""
    for name, _ in (row for row in after.rows if row not in before.rows):
        raise unsupported(f'writing table "{(name or b"").decode()}" from within a function or procedure')


@asynccontextmanager
async def guarding_functions(
    session: SessionContext, functions: Collection[int], table: Table, *, filled: bool = False
) -> AsyncIterator[None]:
    """`guarding` if user-defined functions may run for rows made in the table's shadow, which is `filled` or not. The
    savepoint around it will be undone: an empty shadow refuses no new rows that conflict with each other.
    """
    if not functions:
        yield
        return
    if not filled and table.excludes:
        await session.backend.run(catalog_calls.suspend_exclusions(table.oid))
    async with guarding(session, *([table.oid] if filled else []), undone_in=table.oid):
        yield


async def relay_statement(session: SessionContext, binding: Binding) -> str:
    """Let the backend execute the client's own statement; see `relay_rows`."""
    await send_statement(session, binding)
    return await relay_rows(session)


async def send_statement(session: SessionContext, binding: Binding) -> None:
    """Send the client's own statement to the backend."""
    backend, encoding = session.backend, session.encoding
    if binding.raw_query is None:
        bind = frontend.Bind(
            "", binding.statement, binding.parameter_formats, binding.parameters, binding.result_formats
        )
        await send_messages(session, bind, frontend.Execute(""))
    elif not encoding.converts:
        backend.send(binding.raw_query)
    else:
        query = frontend.Query.decode(binding.raw_query[_HEAD_BYTES:])
        if backend.status == b"T":
            await send_query(session, query.query)
        else:
            backend.send(await encoding.encoded(query))


async def send_other_text(session: SessionContext, binding: Binding, sql: str, parameter_types: Sequence[int]) -> None:
    """Send another text in place of the client's own statement, with its parameters."""
    if binding.raw_query is not None:
        await send_query(session, sql)
        return
    bind = frontend.Bind("", _OTHER, binding.parameter_formats, binding.parameters, binding.result_formats)
    parse, close = frontend.Parse(_OTHER, sql, tuple(parameter_types)), frontend.Close(b"S", _OTHER)
    await send_messages(session, parse, bind, frontend.Execute(""), close)


def without_rows(portal: StatementPortal) -> Statement | None:
    """The client's own statement, for a round trip with the gateway's own statements; None if its answer has rows, or
    it takes long to read.
    """
    binding = portal.binding
    raw, formats = binding.raw_query, binding.parameter_formats
    if portal.columns is not None or len(raw or b"") > LARGE_BYTES:
        return None
    if raw is None:
        sql = portal.analysis.sql
        return Statement(sql, binding.parameters, (), formats, of_client=True, prepared=binding.statement)
    return Statement(frontend.Query.decode(raw[_HEAD_BYTES:]).query, of_client=True)


async def send_query(session: SessionContext, sql: str) -> None:
    """Send a message in place of a simple query."""
    if not session.encoding.converts:
        session.backend.send(frontend.Query(sql).encode())
    else:
        messages = frontend.Parse("", sql), frontend.Bind("", ""), frontend.Describe(b"P", ""), frontend.Execute("")
        await send_messages(session, *messages)


async def send_messages(session: SessionContext, *messages: Message) -> None:
    """Send messages of the extended protocol, and Sync: in UTF-8 in a block, and else in the client's encoding."""
    backend, encoding = session.backend, session.encoding
    if backend.status == b"T":
        backend.send_in_utf8(await encode_messages(messages), frontend.Sync())
    else:
        backend.send(b"".join([await encoding.encoded(message) for message in messages]) + frontend.Sync().encode())


async def relay_rows(session: SessionContext, kept: list[bytes] | ResponseSpool | None = None) -> str:
    """Pass on the rows and notices of a running statement; return its tag, or raise its error.

    RowDescription comes only in a simple query, which needs it. ReadyForQuery ends the answer. With `kept`, everything
    is put there instead of being sent; if that accepts only rows, notices are sent, and the caller sends
    RowDescription.
    """
    return await to_the_end(session.backend, _relay_rows(session, kept))


async def relay_repetitions(
    session: SessionContext, binding: Binding, repetitions: Repetitions, kept: ResponseSpool
) -> str:
    """Let the backend execute the client's own statement, and then its repetitions, by the client's own messages.

    The answers are kept, except messages that the client already has for the first one, and the last tag, which is
    returned. Raises the first error.
    """
    backend = session.backend
    bind = frontend.Bind("", binding.statement, binding.parameter_formats, binding.parameters, binding.result_formats)
    repeated = [frame.data for frame in repetitions.frames]
    backend.send(b"".join((bind.encode(), frontend.Execute("").encode(), *repeated, frontend.Sync().encode())))
    return await to_the_end(backend, _keep_repetitions(session, kept, repetitions.count))


async def _keep_repetitions(session: SessionContext, kept: ResponseSpool, count: int) -> str:
    backend, error, tag = session.backend, None, ""
    is_bound, ended = False, 0
    while True:
        item = await backend.next()
        if not isinstance(item, Frame):
            await _keep(session, kept, item)
        elif item.type == answers.ReadyForQuery.type:
            break
        elif item.type == answers.ErrorResponse.type:
            error = (await read(answers.ErrorResponse, item, strict=False)).to_error()
        elif item.type in _FORWARDED:
            backend.forward(item.data)
        elif item.type == answers.BindComplete.type and not is_bound:
            is_bound = True
        elif item.type == CommandComplete.type and ended == count:
            tag = CommandComplete.decode(item.body, strict=False).tag
        else:
            ended += item.type == CommandComplete.type
            await _keep(session, kept, item.data)
    if error is not None:
        raise error
    return tag


async def _relay_rows(  # noqa: C901  one case for each kind of answer
    session: SessionContext, kept: list[bytes] | ResponseSpool | None
) -> str:
    backend = session.backend
    switched = session.encoding.converts and backend.status == b"T"
    foreign = session.encoding.converts and not switched
    tags, error = list[str](), None
    while True:
        item = await backend.next()
        if not isinstance(item, Frame):
            if kept is not None:
                await _keep(session, kept, item)
                continue
            (session.client.relay if foreign else session.client.write)(item)
            await _drain(session)
        elif item.type == answers.ReadyForQuery.type:
            break
        elif item.type == answers.ErrorResponse.type:
            reading = (
                session.encoding.read(answers.ErrorResponse, item)
                if foreign
                else read(answers.ErrorResponse, item, strict=False)
            )
            error = (await reading).to_error()
        elif item.type == CommandComplete.type:
            tags.append(CommandComplete.decode(item.body, strict=False).tag)
        elif item.type in _FORWARDED:
            backend.forward(item.data)
        elif item.type not in _UNTOLD:
            data = (await session.encoding.read(answers.BACKEND[item.type], item)).encode() if foreign else item.data
            only_rows = isinstance(kept, ResponseSpool) and kept.only_rows
            if kept is not None and not only_rows:
                await _keep(session, kept, data)
            elif not only_rows or item.type != answers.RowDescription.type:
                session.client.write(data)
    if error is not None:
        raise error
    if switched:  # to UTF-8 and back
        _, *tags, _ = tags
    return tags[-1] if tags else ""


async def _drain(session: SessionContext) -> None:
    try:
        await session.client.drain()
    except SluiceError:  # the client's encoding lacks a character
        await session.backend.give_up()
        raise


async def _keep(session: SessionContext, kept: list[bytes] | ResponseSpool, data: bytes | memoryview) -> None:
    if isinstance(kept, list):
        kept.append(bytes(data))
        return
    try:
        await kept.keep(data)
    except SluiceError:
        await session.backend.give_up()
        raise
