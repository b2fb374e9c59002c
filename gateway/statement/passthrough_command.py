"""Finds what a relayed statement does to its session or transaction, as far as the gateway must know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from gateway.session.cancel_listener import check
from planner.syntax.changed_settings import changed_settings, resets_all
from planner.syntax.cursor_declaration import holds
from planner.syntax.source_statement import LONG
from planner.syntax.statements import ConstraintModes, Statement, constraint_modes, setting, split
from planner.syntax.transaction_commands import Shown, TransactionCommand, savepoint_name, shown, transaction_command

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class Preparing:
    """PREPARE; a prepared statement outlives the undoing of the savepoint in which it was made."""

    sql: str


@dataclass(frozen=True, slots=True)
class Importing:
    """SET TRANSACTION SNAPSHOT, which names the snapshot."""

    sql: str


class Apart(Enum):
    """Statements with a protocol of their own: COPY, cursors, RESET ALL, and the empty statement, which begins no
    transaction.
    """

    COPY = "copy"
    CURSOR = "declare"  # it ends with the transaction
    RESET_ALL = "reset all"
    NOTHING = "nothing"

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Apart | None:
        """The kind of these statements; None for ordinary ones."""
        if not statements:
            return cls.NOTHING
        match statements[0].first_word:
            case "copy":
                return cls.COPY
            case "declare" if not holds(statements[0]):
                return cls.CURSOR
            case _:
                return None


def check_passthrough(session: SessionContext, command: PassthroughCommand | None) -> None:
    """Before execution at the backend: raise if the statement is cancelled, or not allowed outside of a block."""
    check(session)
    if command is Apart.CURSOR:
        check_in_block(session)


def check_in_block(session: SessionContext, *, begins: bool = False) -> None:
    """Raise 25P01 for a cursor outside of a block. PostgreSQL would not: in the extended protocol the gateway's
    questions look to it like a block; so does the transaction that the gateway `begins` for the statement.
    """
    asked = session.simple and not (begins and session.ends_with_statement)
    if not (asked or session.transaction.open or session.pipelining):
        raise SluiceError(SqlState.NO_ACTIVE_SQL_TRANSACTION, "DECLARE CURSOR can only be used in transaction blocks")


def refuse_in_block(session: SessionContext, command: str) -> None:
    """Raise 25001 for a command in a transaction block, in a query of several statements, or behind others in a
    pipeline.
    """
    if session.transaction.open or session.pipelining:
        raise SluiceError(SqlState.ACTIVE_SQL_TRANSACTION, f"{command} cannot run inside a transaction block")


PassthroughCommand = Apart | TransactionCommand | ConstraintModes | Shown | Preparing | Importing


def passthrough_command(statement: Statement) -> PassthroughCommand | None:
    """The statement's effect on session or transaction; None if it has none."""
    command = transaction_command(statement) or constraint_modes(statement) or shown(statement)
    if command is TransactionCommand.SET_SNAPSHOT:
        return Importing(statement.text)
    if command is None and resets_all(statement):
        return Apart.RESET_ALL
    return command or (Preparing(statement.text) if prepares(statement) else None)


def split_and_look(text: str, *settings: str, standard_strings: bool = True) -> Sequence[Statement]:
    """Split a query string into its statements. Long ones keep the answers to later questions about them.

    `settings` are the settings whose SET is looked for.
    """
    statements = split(text, standard_strings=standard_strings)
    for statement in statements:
        if len(statement.text) >= LONG:
            command = passthrough_command(statement)
            if isinstance(command, TransactionCommand):
                savepoint_name(statement, command)
            changed_settings(statement)
            for name in settings:
                setting(statement, name)
    return statements


def prepares(statement: Statement) -> bool:
    """Whether the statement is PREPARE."""
    return statement.first_word == "prepare" and transaction_command(statement) is None
