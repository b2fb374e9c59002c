"""The messages by which a client goes on with a series of INSERTs (gateway/execution/changes/insert_series.py).

These are texts that differ from the first one's in their constants, and Bind, optionally Describe, and Execute of the
first one's prepared statement, received together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from catalog.errors import SluiceError
from gateway.backend.own_statement import Statement
from gateway.client.connection import Client
from gateway.execution.changes.insert_series import InsertSeries
from gateway.execution.changes.lone_inserts import LoneInserts
from gateway.execution.functions.adding_inserts import AddingInserts
from gateway.protocol.named import BoundPortal
from gateway.session.session_context import SessionContext
from gateway.statement.prepared_statements import Prepared
from gateway.transaction.inserted import Inserted
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.layout import Message
from planner.syntax.insert_shape import insert_shape

_DESCRIBE_PORTAL: Final = b"P\0"
_UNNAMED: Final = b"\0"


@dataclass(frozen=True, slots=True)
class Following:
    """The series, and what belongs to it: texts of a shape, or executions of a prepared statement."""

    series: InsertSeries
    shape: tuple[str, ...] | None = None
    name: str = ""
    prepared: Prepared | None = None

    @classmethod
    def of(
        cls, session: SessionContext, inserted: Inserted, *, text: str = "", portal: BoundPortal | None = None
    ) -> Self:
        """The series that this INSERT begins, with its text as a simple query or the portal that it was bound as."""
        if inserted.adding is not None:
            series: InsertSeries = AddingInserts(session, inserted, inserted.adding)
        else:
            series = (InsertSeries if session.transaction.open else LoneInserts)(session, inserted)
        if portal is None:
            standard = session.backend.parameters.get("standard_conforming_strings") == "on"
            return cls(series, insert_shape(text) if standard else None)
        return cls(series, None, portal.binding.statement, portal.prepared)

    async def query(self, text: str) -> bool:
        """Carry out a simple query; false if it is not one of the series."""
        if self.shape is None or self.shape != insert_shape(text):
            return False
        return await self.series.insert(Statement(text, of_client=True))

    async def bind(self, session: SessionContext, message: frontend.Bind) -> bool:
        """Carry out the execution that begins with this Bind of the prepared statement; false if it is not one of the
        series.
        """
        if self.prepared is None or message.portal or (taken := _taken(session.client)) is None:
            return False
        if not session.transaction.open and (session.pipelining or session.client.next_type != frontend.Sync.type):
            _put_back(session.client, taken)
            return False
        ahead: list[Message] = [answers.BindComplete()]
        if len(taken) > 1:
            ahead.append(answers.NoData())
        values, formats = message.parameters, message.parameter_formats
        sql = self.prepared.analysis.sql
        statement = Statement(sql, values, (), formats, of_client=True, prepared=self.name)
        good = await self.series.insert(statement, *ahead)
        if not good:
            _put_back(session.client, taken)
        return good


def _taken(client: Client) -> list[Frame] | None:
    """The rest of an execution of the unnamed portal, if it was received."""
    taken: list[Frame] = []
    try:
        while (frame := client.at_hand()) is not None:
            taken.append(frame)
            body = bytes(frame.body[:2])
            if frame.type == frontend.Execute.type and body[:1] == _UNNAMED:
                return taken
            if not (frame.type == frontend.Describe.type and body == _DESCRIBE_PORTAL and len(taken) == 1):
                break
    except SluiceError:
        pass  # the next reader reports a malformed message
    _put_back(client, taken)
    return None


def _put_back(client: Client, frames: list[Frame]) -> None:
    for frame in reversed(frames):
        client.hold(frame)
