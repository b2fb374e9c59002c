"""Has PostgreSQL begin a client's COPY over the shadow first, to check options, columns, condition and privileges.

Errors are then PostgreSQL's own, and the gateway reads only accepted statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.backend.copies import try_copy
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.client.encoding import UNCHANGED
from gateway.client.response_encoding import Copies
from gateway.copy_format import CopyFormat, CopyOptions
from gateway.wire.messages.backend import FieldDescription
from planner.syntax.copy_text import copy_source
from planner.syntax.lexer import quoted
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.statement.routed import Routed

_CANONICAL: Final = "SELECT pg_catalog.pg_encoding_to_char(pg_catalog.pg_char_to_encoding($1))"


async def try_statement(session: SessionContext, sql: str) -> SluiceError | None:
    """Raise PostgreSQL's refusal; return the error that it would raise after asking the client for data."""
    around: tuple[Sequence[Statement], Sequence[Statement]] = ((), ())
    if session.transaction.open:
        around = ((TRIAL.begin,), TRIAL.undo)
    return await try_copy(session.backend, sql, *around)


async def try_options(session: SessionContext, sql: str, names: Sequence[str]) -> None:
    """Raise PostgreSQL's errors about the options of COPY … TO; the copied columns have these names."""
    start, end = copy_source(sql)
    nulls = ", ".join(f"NULL AS {quoted(name)}" for name in names)
    query = f" (SELECT {nulls} LIMIT 0) "
    try:
        await try_statement(session, f"{sql[:start]}{query}{sql[end:]}")
    except SluiceError as error:
        if error.fields.get("P"):
            error.fields["P"] = str(int(error.fields["P"]) + (end - start) - len(query))
        raise


def options_of(routed: Routed, names: Sequence[str]) -> CopyOptions:
    """The options of a COPY of these columns, from PostgreSQL's tree of it."""
    assert routed.query is not None
    options = routed.query.utilityStmt.options or ()
    return CopyOptions.read({str(option.defname): _value(option.arg) for option in options}, names)


def _value(argument: object) -> object:
    """A bare option is True, `*` stands for all columns."""
    if argument is None:
        return True
    if isinstance(argument, Node):
        if argument.type == "A_STAR":
            return "*"
        return next((argument.fields[name] for name in _CONSTANTS if name in argument.fields), argument)
    return list(argument) if isinstance(argument, tuple) else argument


_CONSTANTS: Final = ("val", "boolval")


def backend_copies(session: SessionContext, options: CopyOptions) -> Copies:
    """The form of the backend's data in COPY … TO, which is UTF-8 if the options name no encoding."""
    if not session.encoding.converts:
        return Copies.AS_THEY_ARE
    if options.format is CopyFormat.BINARY:
        return Copies.ROWS
    return Copies.LINES if options.encoding is None else Copies.AS_THEY_ARE


def binary_columns(columns: Sequence[FieldDescription]) -> tuple[FieldDescription, ...]:
    """The columns of a COPY in binary format."""
    return tuple(replace(column, format=1) for column in columns)


async def data_encoding(session: SessionContext, options: CopyOptions) -> str | None:
    """The encoding of the data, by PostgreSQL's name; None if no text needs conversion. In binary format it is the
    client's, whatever the options say.
    """
    name = session.encoding.name
    if options.encoding is not None and options.format is not CopyFormat.BINARY:
        [result] = await session.backend.run(Statement(_CANONICAL, (options.encoding,)))
        name = (result.rows[0][0] or b"").decode()
    return None if name in UNCHANGED else name
