"""Prepared statements of the lake, of the protocol and of SQL; PostgreSQL keeps both in one namespace.

The backend has every prepared statement, so `pg_prepared_statements`, DEALLOCATE and all errors are PostgreSQL's. A
Bind analyses the statement again if the schema, the search path or a temporary table may have changed
(gateway/statement/kept_analyses.py). PostgreSQL then plans it again too, or reports that its result would change.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import NOTHING, Analysis, Following, SchemaMark
from gateway.backend.answers_to_the_end import to_the_end
from gateway.backend.connection import Backend
from gateway.backend.encoded_statement import CLOSES, encode_messages, encode_statement, takes_long
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.client.encoding import ClientEncoding
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.statement.kept_analyses import keep
from gateway.statement.routed import Routed
from gateway.statement.routing import prepared_text, route
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import FieldDescription, decode_backend
from gateway.wire.messages.layout import Message
from planner.plans.routes import is_utility
from planner.syntax.statements import split

if TYPE_CHECKING:
    from gateway.backend.meanings import Epoch
    from gateway.session.session_context import SessionContext

_NAME: Final = OWN
# Evaluates the arguments of EXECUTE by PostgreSQL's rules.
_ARGUMENTS: Final = f"{OWN}_arguments"
# More arguments come as several rows: a target list, and a row, has at most 1664 entries.
_ENTRIES_MAX: Final = 1600
_INT: Final = struct.Struct("!i")
_FIELD: Final = struct.Struct("!Ii")
# CloseCompletes among the answers to `_checking`.
_CHECKING_CLOSES: Final = 2
_DESCRIPTIONS: Final = (answers.ParameterDescription.type, answers.RowDescription.type, answers.NoData.type)


@dataclass(slots=True)
class Prepared:
    """A prepared statement at its latest Bind; `analysis.columns` are those of its first analysis.

    `kept_at`: by that time it needs no other (gateway/statement/kept_analyses.py); `open_at`: its tables have no
    policies then.
    """

    analysis: Analysis
    routed: Routed
    kept_at: Epoch | None = None
    open_at: SchemaMark | None = None

    @property
    def relayed(self) -> bool:
        """Whether it touches no lake table at present."""
        return self.routed.is_relayed


async def renewed(
    session: SessionContext,
    name: str,
    known: Prepared | None,
    *,
    is_sure: bool,
    sync: bool,
    following: Following = NOTHING,
) -> Prepared | None:
    """The statement of that name with its present meaning; None if only the backend knows it.

    The backend must not be waiting for Sync. `is_sure`: `known` is what the backend has prepared by that name. `sync`
    and `following` are those of `analyse`.
    """
    if not is_sure:
        found = await prepared_text(session, name)
        if found is None or not await offloaded(session, len(found.text), split, found.text):
            return None  # also an empty query, which means nothing
        if known is None or known.analysis.sql != found.text:
            analysis = await analysed(
                session,
                found.text,
                name=_NAME,
                parameter_types=found.parameter_types,
                sync=sync,
                following=following,
            )
            return Prepared(analysis, await route(session, analysis))
    if known is None:
        return None
    analysis = await analysed(
        session,
        known.analysis.sql,
        name=_NAME,
        parameter_types=known.analysis.parameter_types,
        sync=sync,
        following=following,
    )
    if analysis.tree != known.analysis.tree or known.routed.late or _names_tables(known.routed):
        columns, analysis.columns = analysis.columns, known.analysis.columns
        routed = await route(session, analysis)
        is_renamed = known.routed.lake and not (routed.lake or _names_tables(routed))
        if is_renamed and not analysis.bound_anew:
            if _types(columns) != _types(analysis.columns):
                raise SluiceError(SqlState.FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
            await _prepare_anew(session, name, analysis, sync=sync)
        return Prepared(analysis, routed)
    known.analysis.mark = analysis.mark
    await keep(session, known, analysis.mark, sync=sync)
    return known


def _types(columns: Sequence[FieldDescription] | None) -> list[tuple[str, int, int]] | None:
    return None if columns is None else [(each.name, each.type_oid, each.typmod) for each in columns]


async def _prepare_anew(session: SessionContext, name: str, analysis: Analysis, *, sync: bool) -> None:
    """Have the backend's statement mean what its text means by now: PostgreSQL itself does not look again because a
    temporary table hides another. It would read the lake's empty shadow.
    """
    ends = frontend.Close(b"P", _NAME)
    parse = frontend.Parse(name, analysis.sql, analysis.parameter_types)
    messages, undone = (frontend.Close(b"S", name), parse, ends), session.backend.status == b"T"
    await _exchange(session.backend, messages, sync=sync, undone=undone, ends=_CHECKING_CLOSES)


def _names_tables(routed: Routed) -> bool:
    """Whether the tree names tables without OIDs, as a utility statement does; a name may mean another table by now."""
    return routed.query is not None and is_utility(routed.query)


async def check_bind(backend: Backend, message: frontend.Bind, *, sync: bool) -> None:
    """Have the backend bind its own statement to a portal of the gateway, to check `message`; nothing is executed.

    PostgreSQL reports wrong parameters, and a result that differs from its description. It locks the shadows for this;
    in a block, the locks are released afterwards.
    """
    undone = backend.status == b"T"
    if message.portal:  # a cursor may have this name already
        await _exchange(backend, (message, frontend.Close(b"P", message.portal)), sync=sync, undone=undone, ends=1)
        return
    await _exchange(backend, _checking(message), sync=sync, undone=undone, ends=_CHECKING_CLOSES)


def checked_after(message: frontend.Bind, encoding: ClientEncoding) -> Following:
    """`check_bind` in the round trip of an analysis; empty if the message needs one of its own."""
    if message.portal or encoding.converts or takes_long(message):
        return NOTHING
    return Following(b"".join(each.encode() for each in _checking(message)), _CHECKING_CLOSES)


def _checking(message: frontend.Bind) -> tuple[frontend.Close, frontend.Bind, frontend.Close]:
    close = frontend.Close(b"P", _NAME)
    return close, replace(message, portal=_NAME), close


async def described(backend: Backend, message: frontend.Describe) -> list[Message]:
    """The backend's description of its prepared statement; in a block it keeps no lock."""
    return await _exchange(backend, (message,), sync=False, undone=True)


async def bind(backend: Backend, message: frontend.Bind) -> None:
    """Have the backend bind its own statement as `message` says, and keep the portal."""
    await _exchange(backend, (message,), sync=True)


@asynccontextmanager
async def prepared(backend: Backend, name: str, sql: str, types: tuple[int, ...]) -> AsyncIterator[None]:
    """Meanwhile, a client's statement is prepared at the backend under a name of the gateway. In a block, no lock is
    kept.
    """
    close = frontend.Close(b"S", name)
    try:
        await _exchange(backend, (close, frontend.Parse(name, sql, types)), sync=True, undone=backend.status == b"T")
        yield
    finally:
        await _exchange(backend, (close,), sync=True)


async def evaluated(backend: Backend, name: str, types: tuple[int, ...], text: str, offset: int) -> list[bytes | None]:
    """Evaluate the arguments of EXECUTE `name`, in binary form. `text` is their text with parentheses, `offset` its
    position in the statement.
    """
    if not types:
        return []  # PostgreSQL ignores arguments of a statement without parameters
    numbers = range(1, len(types) + 1)
    rows = [numbers[start : start + _ENTRIES_MAX] for start in range(0, len(numbers), _ENTRIES_MAX)]
    lists = [", ".join(f"${number}" for number in row) for row in rows]
    many = len(lists) > 1
    query, call = f"SELECT {', '.join(f'ROW({each})' for each in lists) if many else lists[0]}", f"EXECUTE {_ARGUMENTS}"
    async with prepared(backend, _ARGUMENTS, query, types):
        try:
            [result] = await backend.run(Statement(call + text, result_format=1))
        except SluiceError as error:
            error.fields["M"] = error.message = error.message.replace(f'"{_ARGUMENTS}"', f'"{name}"')
            if "P" in error.fields:
                error.fields["P"] = str(int(error.fields["P"]) - len(call) + offset)
            raise
    return [value for row in result.rows[0] for value in _of_row(row or b"")] if many else list(result.rows[0])


def _of_row(row: bytes) -> list[bytes | None]:
    """The values of a row in binary form (record_send)."""
    (count,) = _INT.unpack_from(row)
    values: list[bytes | None] = []
    place = _INT.size
    for _ in range(count):
        _, length = _FIELD.unpack_from(row, place)
        place += _FIELD.size
        values.append(None if length < 0 else row[place : place + length])
        place += max(length, 0)
    return values


async def _exchange(
    backend: Backend,
    messages: tuple[frontend.Parse | frontend.Bind | frontend.Describe | frontend.Close, ...],
    *,
    sync: bool,
    undone: bool = False,
    ends: int = 0,
) -> list[Message]:
    """Send messages, and return the descriptions in the answers; without `sync`, the Closes in `ends` end them.

    If `undone`, the messages run in a savepoint that is rolled back.
    """
    sent = await encode_messages(messages)
    if undone:
        sent = [encode_statement(TRIAL.begin), *sent, *(encode_statement(each, backend.comment) for each in TRIAL.undo)]
        ends += CLOSES * (1 + len(TRIAL.undo))
    ends += CLOSES * sum(map(bool, backend.switching))
    backend.send_in_utf8(sent, frontend.Sync() if sync else frontend.Flush())
    reading = _descriptions(backend, ends, sync=sync)
    return await (to_the_end(backend, reading) if sync else reading)


async def _descriptions(backend: Backend, ends: int, *, sync: bool) -> list[Message]:
    descriptions: list[Message] = []
    error: SluiceError | None = None
    closed = 0
    while True:
        item = await backend.next()
        assert isinstance(item, Frame)
        if item.type == answers.ReadyForQuery.type:
            backend.at_rest = True
            break
        if item.type == answers.ErrorResponse.type:
            error = answers.ErrorResponse.decode(item.body, strict=False).to_error()
            if not sync:
                break
        elif item.type == answers.CloseComplete.type:
            closed += 1
            if not sync and closed == ends:
                break
        elif item.type in _DESCRIPTIONS:
            descriptions.append(decode_backend(item.type, item.body))
        elif item.type in (answers.ParameterStatus.type, answers.NotificationResponse.type):
            backend.forward(item.data)
    if error is not None:
        raise error
    return descriptions
