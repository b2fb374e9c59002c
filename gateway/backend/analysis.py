"""Asks PostgreSQL for a statement's analysis: its tree, its result columns, the types of its parameters.

It takes one round trip: the client's Parse and Describe, between two statements that switch `debug_print_rewritten` on
and off. The tree comes as a notice at level LOG, which the client does not get. Both settings have the effect of SET
LOCAL, so that an error restores them.

PostgreSQL may run functions during analysis (the CHECK of a domain, for a literal of an array of it). It then prints
the trees of their statements too, and their RAISE messages. The statement's own tree is the last that PostgreSQL
prints before ParseComplete, outside of any function.

Analysis resolves names under locks on the shadows, which hold the schemas. In a block the analysis runs in a savepoint
that is undone, which releases the locks (prepared statements outlive that). So no schema change waits for an open
transaction. A mark records which schemas were used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend import statement_timeout
from gateway.backend.answers_to_the_end import to_the_end
from gateway.backend.connection import Backend
from gateway.backend.encoded_statement import CLOSES, encode_statement
from gateway.backend.messages_aside import PRINTED_BY
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.client.encoding import client_encoding
from gateway.wire.framing import HEADER_BYTES, TREE_MESSAGE, Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import FieldDescription, NoticeResponse, decode_backend
from gateway.wire.messages.layout import Message, find_nul
from planner.tree.compact_tree import TreeText, compact

_T = TypeVar("_T")

if TYPE_CHECKING:
    from planner.tree.tree_rights import Demand

# The tree comes in UTF-8, whatever the client's encoding is.
_ON: Final = Statement(
    "SELECT pg_catalog.set_config('sluice.client_encoding', pg_sluice.backend_setting('client_encoding'), true),"
    " pg_catalog.set_config('client_encoding', 'UTF8', true),"
    " pg_catalog.set_config('sluice.client_min_messages',"
    " pg_sluice.backend_setting('client_min_messages'), true),"
    " pg_catalog.set_config('client_min_messages', 'log', true),"
    " pg_catalog.set_config('debug_pretty_print', 'off', true),"
    " pg_catalog.set_config('debug_print_rewritten', 'on', true)"
)
_OFF: Final = Statement(
    "SELECT pg_catalog.set_config('debug_print_rewritten', 'off', true),"
    " pg_catalog.set_config('client_min_messages',"
    " pg_sluice.backend_setting('sluice.client_min_messages'), true),"
    " pg_catalog.set_config('client_encoding', pg_sluice.backend_setting('sluice.client_encoding'), true),"
    f" {statement_timeout.ASKED}, pg_sluice.schema_mark()"
)
# Characters that take a millisecond to copy.
_LARGE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SchemaMark:
    """The last step in the catalog's schema log, and the last schema change of the session's own transaction."""

    step: int
    own: int

    @classmethod
    def of(cls, text: bytes | None) -> SchemaMark:
        """Parse the result of `pg_sluice.schema_mark`."""
        assert text is not None
        step, own = text.split()
        return cls(int(step), int(own))


@dataclass(slots=True)
class Analysis:
    """PostgreSQL's analysis of a statement.

    `tree` is the text of the list of rewritten queries. `columns` is None if the statement returns no rows. `notices`
    are PostgreSQL's notices for the client. `mark` says which schemas were used; `timeout` is statement_timeout in
    seconds; `views` are the expanded views by OID; `demands` are the rights that the statement needs. `asked_settings`
    are the client's own settings that it reads, known after routing. `bound_anew`: PostgreSQL has analysed once
    more the statement that was bound behind this.
    """

    sql: str
    tree: TreeText
    mark: SchemaMark
    views: Mapping[int, str] = field(default_factory=dict)
    demands: Sequence[Demand] = ()
    asked_settings: frozenset[str] = frozenset()
    columns: tuple[FieldDescription, ...] | None = None
    parameter_types: tuple[int, ...] = ()
    notices: list[NoticeResponse] = field(default_factory=list)
    timeout: float | None = None
    bound_anew: bool = False
    _read: dict[Callable[[str], Any], tuple[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    def taken_apart(self, how: Callable[[str], _T]) -> _T:
        """The result of `how` on the statement's text, computed once, because long texts take long."""
        sql, read = self._read.get(how, ("", None))
        if sql is not self.sql:
            read = how(self.sql)
            self._read[how] = (self.sql, read)
        found: _T = read
        return found


class Following(NamedTuple):
    """Messages of the extended protocol that follow an analysis, and how many CloseCompletes answer them."""

    messages: bytes = b""
    closes: int = 0


NOTHING: Final = Following()


async def analyse(
    backend: Backend,
    sql: str,
    *,
    name: str = "",
    parameter_types: tuple[int, ...] = (),
    sync: bool,
    following: Following = NOTHING,
) -> Analysis:
    """Parse `sql` at the backend as the prepared statement `name`, and return its analysis. Raises PostgreSQL's error.

    Without `sync` the implicit transaction stays open, and after an error the backend waits for Sync. `following` is
    sent in the same round trip, while trees are printed; its error is raised too, its notices are not kept.
    """
    in_block = backend.status == b"T"
    before, undo = ((TRIAL.begin, _ON), TRIAL.undo) if in_block else ((_ON,), ())
    comment = backend.comment
    parse = frontend.Parse(name, sql, parameter_types)
    parsing = parse.encode() if len(sql) < _LARGE else await asyncio.to_thread(parse.encode)
    backend.send(
        b"".join(map(encode_statement, before)),
        parsing,
        frontend.Describe(b"S", name).encode(),
        following.messages
        + encode_statement(_OFF, comment)
        + b"".join(encode_statement(each, comment) for each in undo),
        (frontend.Sync() if sync else frontend.Flush()).encode(),
    )
    begins = CLOSES * len(before)
    places = _Places(begins, begins + following.closes, begins + following.closes + CLOSES * (1 + len(undo)))
    reading = _read(backend, sql, places, sync=sync)
    analysis = await (to_the_end(backend, reading) if sync else reading)
    if backend.told is not None:
        await backend.told.refuse(analysis.tree)
    return analysis


class _Places(NamedTuple):
    """How many CloseCompletes come before the answers to the Parse, up to the end of `following`, and altogether."""

    begins: int
    followed: int
    ends: int


async def _read(  # noqa: C901  one case for each kind of answer
    backend: Backend, sql: str, places: _Places, *, sync: bool
) -> Analysis:
    analysis = Analysis(sql, TreeText(""), SchemaMark(0, 0))
    answer = bytearray()  # the row of `_OFF`, as a frame
    tree: TreeText | None = None
    parsed = False
    error: SluiceError | None = None
    closed = 0
    while True:
        item = await backend.next()
        if not isinstance(item, Frame):
            if closed > places.begins:
                answer += item
            continue
        if item.type == answers.CloseComplete.type:
            closed += 1
            if closed == places.ends and not sync:
                break
            continue
        if item.type == answers.BindComplete.type:
            continue
        message, large = await _decoded(item)
        match message:
            case answers.ReadyForQuery():
                backend.at_rest = True
                break
            case answers.ErrorResponse():
                error = message.to_error()
                if not sync:
                    break
            case NoticeResponse(fields):
                texts = dict(fields)
                if _is_tree(texts):
                    # The others belong to functions, and to the gateway's statements. Describing EXECUTE may print
                    # the tree of the prepared statement, after the parse.
                    if closed == places.begins and not parsed and "W" not in texts:
                        tree = large or TreeText(texts["D"])
                    elif places.begins < closed < places.followed and "W" not in texts:
                        analysis.bound_anew = True
                elif texts.get("V") != "LOG" and closed <= places.begins:
                    analysis.notices.append(message)
            case answers.ParseComplete():
                parsed = closed == places.begins
            case answers.ParameterDescription(types):
                analysis.parameter_types = types
            case answers.RowDescription(columns) if closed == places.begins:
                analysis.columns = columns
            case answers.ParameterStatus() | answers.NotificationResponse():
                backend.forward(item.data)
            case _:
                pass
    if error is not None:
        raise error
    if tree is None:
        # Without the tree, a read of a shadow could not be excluded: never relay on a guess.
        raise SluiceError(SqlState.INTERNAL_ERROR, "PostgreSQL did not say what the statement means")
    analysis.tree = tree
    *_, encoding, timeout, mark = answers.DataRow.decode(bytes(answer[5:])).values
    if encoding != client_encoding(backend.parameters).encode():
        # It was set since the last Sync; the statement's text was decoded before that was known.
        raise unsupported("a change of client_encoding before other statements in the same pipeline")
    analysis.timeout = statement_timeout.seconds((timeout or b"0").decode())
    analysis.mark = SchemaMark.of(mark)
    return analysis


async def _decoded(frame: Frame) -> tuple[Message, TreeText | None]:
    """Decode a message, a large one off the event loop, and the statement's tree if it is a large one."""
    if not frame.is_large:
        return decode_backend(frame.type, frame.body), None
    if frame.type == NoticeResponse.type:
        return await asyncio.to_thread(_large_notice, frame.data)
    return await asyncio.to_thread(lambda: decode_backend(frame.type, frame.body)), None


def _large_notice(data: bytes) -> tuple[NoticeResponse, TreeText | None]:
    """Decode a large notice. Its detail is left out if it is the statement's tree, which is returned beside it and made
    smaller before it is decoded, or another tree, or if code of users has logged it: the client does not get these.
    """
    places: dict[str, tuple[int, int]] = {}
    place = HEADER_BYTES
    while data[place]:
        end = find_nul(data, place)
        places[chr(data[place])] = (place + 1, end)
        place = end + 1
    fields = {
        code: str(memoryview(data)[slice(*at)], "utf-8", "surrogateescape")
        for code, at in places.items()
        if code != "D"
    }
    tree = None
    if "D" in places:
        start, end = places["D"]
        detail = ""
        if _is_tree(fields) and "W" not in fields:
            tree = compact(data, start, end)
        elif fields.get("V") != "LOG":
            detail = str(memoryview(data)[start:end], "utf-8", "surrogateescape")
        fields = {code: fields[code] if code != "D" else detail for code in places}
    return NoticeResponse(tuple(fields.items())), tree


def _is_tree(notice: Mapping[str, str]) -> bool:
    """Whether PostgreSQL has printed a rewritten tree, of the statement or, with a context, of a function."""
    return notice["M"] == TREE_MESSAGE and (notice.get("F"), notice.get("R")) == PRINTED_BY
