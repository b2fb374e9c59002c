"""Asking PostgreSQL what a statement means: its analysed tree, its result columns, the types of its parameters.

One round trip: the client's Parse and Describe, between two statements that switch `debug_print_rewritten` on and off
for it. The tree comes as a notice at level LOG, which is for the gateway alone. Both settings are made with the
effect of SET LOCAL, so that an error takes them back by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import CLOSES, Backend, Statement, encode_statement
from gateway.framing import Frame
from gateway.messages import backend as answers
from gateway.messages import frontend
from gateway.messages.backend import FieldDescription, NoticeResponse, decode_backend

_ON: Final = Statement(
    "SELECT pg_catalog.set_config('sluice.client_min_messages',"
    " pg_catalog.current_setting('client_min_messages'), true),"
    " pg_catalog.set_config('client_min_messages', 'log', true),"
    " pg_catalog.set_config('debug_pretty_print', 'off', true),"
    " pg_catalog.set_config('debug_print_rewritten', 'on', true)"
)
_OFF: Final = Statement(
    "SELECT pg_catalog.set_config('debug_print_rewritten', 'off', true),"
    " pg_catalog.set_config('client_min_messages',"
    " pg_catalog.current_setting('sluice.client_min_messages'), true)"
)
_TREE: Final = "rewritten parse tree:"


@dataclass(slots=True)
class Analysis:
    """What PostgreSQL made of a statement.

    `tree` is the text of the list of rewritten queries. `columns` is None where the
    statement returns no rows. `notices` are those of the analysis itself, which the client is owed.
    """

    sql: str
    tree: str
    columns: tuple[FieldDescription, ...] | None = None
    parameter_types: tuple[int, ...] = ()
    notices: list[NoticeResponse] = field(default_factory=list)


async def analyse(  # noqa: C901  one case for each kind of answer
    backend: Backend, sql: str, *, name: str = "", parameter_types: tuple[int, ...] = (), sync: bool
) -> Analysis:
    """Parse `sql` at the backend as the prepared statement `name`, and say what it is. Raises PostgreSQL's error.

    Without `sync` the implicit transaction stays open, and after an error the backend waits for Sync.
    """
    backend.send(
        b"".join(
            (
                encode_statement(_ON),
                frontend.Parse(name, sql, parameter_types).encode(),
                frontend.Describe(b"S", name).encode(),
                encode_statement(_OFF),
                (frontend.Sync() if sync else frontend.Flush()).encode(),
            )
        )
    )
    analysis = Analysis(sql, "")
    tree: str | None = None
    error: SluiceError | None = None
    closed = 0
    while True:
        item = await backend.next()
        if not isinstance(item, Frame):
            continue  # the row of a set_config
        message = decode_backend(item.type, item.body)
        match message:
            case answers.ReadyForQuery():
                break
            case answers.ErrorResponse():
                error = message.to_error()
                if not sync:
                    break
            case NoticeResponse(fields):
                texts = dict(fields)
                if texts["M"] == _TREE:
                    # Another is that of `_OFF` itself; to describe EXECUTE may bring that of what was prepared.
                    if closed == CLOSES and tree is None:
                        tree = texts["D"]
                elif texts.get("V") != "LOG":
                    analysis.notices.append(message)
            case answers.ParameterDescription(types):
                analysis.parameter_types = types
            case answers.RowDescription(columns) if closed == CLOSES:
                analysis.columns = columns
            case answers.CloseComplete():
                closed += 1
                if closed == 2 * CLOSES and not sync:
                    break
            case answers.ParameterStatus() | answers.NotificationResponse():
                backend.forward(item.data)
            case _:
                pass
    if error is not None:
        raise error
    if tree is None:
        # Without it nobody knows whether a shadow would be read: never relay on a guess.
        raise SluiceError(SqlState.INTERNAL_ERROR, "PostgreSQL did not say what the statement means")
    analysis.tree = tree
    return analysis
