"""A portal of the lake: a statement with its parameters, which gives rows when it is executed.

`gateway.execution.dispatch` makes one class of portal for each kind of statement; the session executes all alike.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.backend.statement_timeout import timed_out
from gateway.session.buffered_response import HeardTag, HeldRows, without_rows
from gateway.session.cancel_listener import check
from gateway.session.repeated_execution import Repetitions
from gateway.session.response_spool import ResponseSpool
from gateway.session.session_timeouts import STATEMENT_TIMEOUT
from gateway.wire.messages.backend import FieldDescription, RowDescription
from planner.spark.plan import Parameter

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_IN_BLOCK: Final = " cannot run inside a transaction block"
TIMEOUT: Final = Statement(f"SELECT {STATEMENT_TIMEOUT}")


@dataclass(frozen=True, slots=True)
class Binding:
    """What Bind has given: the prepared statement's name at the backend, and the parameters unchanged.

    `canonical` are the parameters as PostgreSQL writes them. A simple query has no parameters, text results, and its
    own message for the backend.
    """

    statement: str = ""
    parameters: tuple[bytes | None, ...] = ()
    parameter_formats: tuple[int, ...] = ()
    result_formats: tuple[int, ...] = ()
    canonical: tuple[Parameter, ...] = ()
    raw_query: bytes | None = None


class Portal(ABC):
    """`name` is the client's. `columns` are those that Describe answers, with formats; None for a statement without
    rows.

    In a simple query the columns are announced once the statement is certain to return rows.
    """

    session: SessionContext
    name = ""
    text = ""  # of its statement, if it has one
    columns: tuple[FieldDescription, ...] | None = None
    started = False
    is_calm = False  # it does not change what names mean
    repetitions: Repetitions | None = None  # further executions that it answers, if it can

    def announce(self) -> None:
        """In a simple query, send RowDescription."""
        if self.session.simple and self.columns is not None:
            self.session.send_noted(RowDescription(self.columns))

    @abstractmethod
    async def execute(self, limit: int) -> None:
        """Send rows, at most `limit` unless it is 0, then CommandComplete or PortalSuspended."""

    async def close(self) -> None:
        """Release resources; closing twice is allowed."""
        return


class StatementPortal(Portal):
    """A statement that one Execute carries out completely: everything but a query."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        self.session = session
        self.analysis = analysis
        self.text = analysis.sql
        self.routed = routed
        self.binding = binding
        self._timer: asyncio.Timeout | None = None
        self._held: HeldRows | None = None
        self._tag = ""  # of an execution that has returned all rows at once
        if analysis.columns is not None:
            self.columns = with_formats(analysis.columns, binding.result_formats)

    async def execute(self, limit: int) -> None:
        session, client = self.session, self.session.client
        heard: HeardTag | None = None
        if not self.started:
            self.started = True
            if limit and self.columns is not None:
                session.client = self._held = HeldRows(client)
            elif self.columns is not None:
                session.client = heard = HeardTag(client)
            try:
                async with asyncio.timeout(None) as self._timer:
                    await self.run()
            except TimeoutError:
                session.gateway.engine.cancel(session.tag)
                raise timed_out() from None
            finally:
                session.client = client
            self._tag = "" if heard is None else heard.tag
        elif self._tag:
            client.send(without_rows(self._tag))
        elif self._held is None:
            raise SluiceError(SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE, f'portal "{self.name}" cannot be run')
        if self._held is not None:
            await self._held.give(limit)

    async def close(self) -> None:
        if self._held is not None:
            await self._held.close()

    async def pass_on(self, answers: Collection[bytes] | ResponseSpool) -> None:
        """Send the backend's answers to the statement. The backend describes rows only in answer to a simple query."""
        if isinstance(answers, ResponseSpool):
            if self.binding.raw_query is None:
                self.announce()
            await answers.give(self.session.client)
            return
        if not any(data[0] == RowDescription.type for data in answers):
            self.announce()
        for data in answers:
            self.session.client.write(data)
            await self.session.client.drain()

    async def ask_limit(self) -> None:
        """Apply the session's statement_timeout, if no other question to the backend is due."""
        [timeout] = await self.session.backend.run(TIMEOUT)
        self.limit_by(timeout)

    def limit_by(self, answer: Result) -> None:
        """Apply the session's statement_timeout: the answer to `TIMEOUT`."""
        self.limit_time(int(answer.rows[0][0] or 0) / 1000 or None)

    def limit_time(self, seconds: float | None) -> None:
        """Limit the statement's time in seconds, counted from now, or the session's earlier deadline."""
        if seconds is not None and self._timer is not None:
            deadline = asyncio.get_running_loop().time() + seconds
            self._timer.reschedule(min(deadline, self.session.deadline or deadline))

    @abstractmethod
    async def run(self) -> None:
        """Execute the statement, and send everything up to CommandComplete."""


async def run_portal(portal: Portal, limit: int) -> None:
    """Execute a portal; an error caused by a CancelRequest becomes 57014."""
    session = portal.session
    if not portal.is_calm:
        session.meanings.disturb()
    was_alone = not (session.transaction.open or session.pipelining)
    session.client.describe(portal.columns)
    try:
        with session.running_statement(portal.text):
            check(session)
            refuse_formats(portal.columns or ())
            await session.timeouts.running(lambda: portal.execute(limit))
    except SluiceError as error:
        if was_alone:
            _tell_of_function(error)
        was_ended = error.sqlstate == SqlState.QUERY_CANCELED
        if was_ended and session.doom is not None and not session.cancelled:
            raise session.doom from error
        if session.cancelled and not was_ended:
            raise SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request") from error
        raise
    finally:
        if not portal.is_calm:  # again: parts of the statement may have been transactions of their own
            session.meanings.disturb()


def _tell_of_function(error: SluiceError) -> None:
    """Without the gateway's block around it, PostgreSQL would refuse a command because it is in a function."""
    if error.sqlstate == SqlState.ACTIVE_SQL_TRANSACTION and error.message.endswith(_IN_BLOCK) and "W" in error.fields:
        error.message = error.message.removesuffix(_IN_BLOCK) + " cannot be executed from a function"
        error.fields["M"] = error.message


def refuse_formats(columns: Sequence[FieldDescription]) -> None:
    """Raise 22023 for an unknown format code."""
    for column in columns:
        if column.format not in (0, 1):
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"unsupported format code: {column.format}")


def result_formats(formats: Sequence[int], count: int) -> tuple[int, ...]:
    """One format code per column, from the zero, one or all codes that Bind gives."""
    if len(formats) <= 1:
        return tuple(formats or (0,)) * count
    if len(formats) != count:
        raise SluiceError(
            SqlState.PROTOCOL_VIOLATION,
            f"bind message has {len(formats)} result formats but query has {count} columns",
        )
    return tuple(formats)


def with_formats(columns: Sequence[FieldDescription], formats: Sequence[int]) -> tuple[FieldDescription, ...]:
    """The columns with their format codes."""
    codes = result_formats(formats, len(columns))
    return tuple(replace(column, format=code) for column, code in zip(columns, codes, strict=True))
