"""Executes a step of a procedure: a DO block under the function guard, whose cursors give the values that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.analysis import Analysis
from gateway.backend.answers_to_the_end import to_the_end
from gateway.backend.encoded_statement import encode_statement
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import VALUES
from gateway.client.encoding import read
from gateway.execution.functions.do_call import GuardedPortal
from gateway.session.response_spool import ResponseSpool
from gateway.statement.portal import Binding
from gateway.statement.routed import Routed
from gateway.wire.framing import HEADER_BYTES, Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import FieldDescription, NoticeResponse, RowDescription, row_values
from planner.plans.routes import Route
from planner.plpgsql.step import ROWS
from planner.tree.compact_tree import TreeText

if TYPE_CHECKING:
    from gateway.backend.analysis import SchemaMark
    from gateway.session.session_context import SessionContext

# Values go into the next step as text, which has one meaning under all settings.
_CANONICAL: Final = tuple(
    Statement(f"SET LOCAL {setting}")
    for setting in ("DateStyle = 'ISO'", "IntervalStyle = 'postgres'", "extra_float_digits = 1", "bytea_output = 'hex'")
)

Row = tuple[bytes | None, ...]


@dataclass(slots=True)
class Rows:
    """The rows of a cursor, as messages of the protocol."""

    columns: tuple[FieldDescription, ...] = ()
    data: bytearray = field(default_factory=bytearray)

    def read(self) -> list[Row]:
        return read_rows(bytes(self.data))


def read_rows(data: bytes) -> list[Row]:
    """The values of whole messages."""
    found, place = list[Row](), 0
    while place < len(data):
        end = place + 1 + int.from_bytes(data[place + 1 : place + HEADER_BYTES])
        found.append(row_values(data[place:end]))
        place = end
    return found


class StepPortal(GuardedPortal):
    """A step. `row` has the values that it leaves. `opened` has the rows of its other cursor, in a spool that the
    caller closes.
    """

    tells_at_once = False

    def __init__(
        self,
        session: SessionContext,
        text: str,
        mark: SchemaMark,
        *,
        values: str,
        opens: bool,
        meaning: str,
        told: Callable[[str], str],
    ) -> None:
        """`values` is the name of the cursor over values; `opens`: there is another one, over rows. `meaning` is the
        text without values. `told` turns the context of a message into that of the procedure.
        """
        analysis = Analysis(text, TreeText(""), mark)
        super().__init__(session, analysis, Routed(Route.GUARDED), Binding())
        self._values = values
        self._opens = opens
        self._meaning = meaning
        self._told = told
        self.row: Row = ()
        self.columns_opened: tuple[FieldDescription, ...] = ()
        self.opened: ResponseSpool | None = None

    @property
    def _key(self) -> tuple[str, str]:
        return self.session.user, self._meaning

    async def perform(self, answers: ResponseSpool | None) -> str:
        backend = self.session.backend
        assert answers is not None
        self.close_rows()
        step = encode_statement(Statement(self.analysis.sql, of_client=True))
        backend.send_in_utf8([step, *_reading([self._values])], frontend.Sync())
        [values] = await self._read(answers)
        [self.row] = values.read()
        if self._opens:
            name = self.row[ROWS] or b""
            self.opened = ResponseSpool()
            backend.send_in_utf8(_reading([name.decode()]), frontend.Sync())
            [rows] = await self._read(answers, self.opened)
            self.columns_opened = rows.columns
        return ""

    def close_rows(self) -> None:
        """Drop the rows of a loop."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None

    async def _read(self, kept: ResponseSpool, sink: ResponseSpool | None = None) -> list[Rows]:
        """Read the answers up to ReadyForQuery; raise the error among them. Rows go to the `sink`, if there is one."""
        return await to_the_end(self.session.backend, self._read_all(kept, sink))

    async def _read_all(self, kept: ResponseSpool, sink: ResponseSpool | None) -> list[Rows]:
        backend, found, error = self.session.backend, list[Rows](), None
        while True:
            item = await backend.next()
            if not isinstance(item, Frame):
                if found:  # else they answer the gateway's own statements
                    await self._keep(sink, found[-1], item)
                continue
            match item.type:
                case answers.ReadyForQuery.type:
                    break
                case answers.ErrorResponse.type:
                    error = (await read(answers.ErrorResponse, item, strict=False)).to_error()
                case NoticeResponse.type:
                    notice = await read(NoticeResponse, item, strict=False)
                    await kept.keep(self._renamed(notice).encode())
                case RowDescription.type:
                    found.append(Rows(RowDescription.decode(item.body, strict=False).columns))
                case answers.ParameterStatus.type | answers.NotificationResponse.type:
                    backend.forward(item.data)
        if error is not None:
            raise error
        return found

    async def _keep(self, sink: ResponseSpool | None, rows: Rows, data: memoryview) -> None:
        if sink is None:
            rows.data += data
            return
        try:
            await sink.keep(data)
        except SluiceError:
            await self.session.backend.give_up()
            raise

    def _renamed(self, notice: NoticeResponse) -> NoticeResponse:
        return NoticeResponse(tuple((code, self._told(text) if code == "W" else text) for code, text in notice.fields))


def _reading(cursors: Sequence[str]) -> list[bytes]:
    """The messages that describe, read and close these cursors, under settings of their own."""
    begins = [encode_statement(each) for each in (VALUES.begin, *_CANONICAL)]
    reads = [
        message.encode()
        for name in cursors
        for message in (frontend.Describe(b"P", name), frontend.Execute(name), frontend.Close(b"P", name))
    ]
    return [*begins, *reads, *(encode_statement(each) for each in VALUES.undo)]
