"""What a relayed statement does to the session or its transaction, that the gateway has to know of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from gateway.session.cancel_listener import check
from planner.syntax.changed_settings import Resetting, changed_settings, resetting
from planner.syntax.lexer import tokens
from planner.syntax.source_statement import LONG
from planner.syntax.statements import ConstraintModes, Statement, constraint_modes, setting, split
from planner.syntax.transaction_commands import Shown, TransactionCommand, savepoint_name, shown, transaction_command

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class Preparing:
    """PREPARE: what was prepared in a savepoint outlives it, and so is prepared in one that is undone."""

    sql: str


class Apart(Enum):
    """What the protocol has ways of its own for: COPY's data, cursors, and no statement at all, which begins no
    transaction."""

    COPY = "copy"
    CURSOR = "declare"  # which ends with the transaction
    NOTHING = "nothing"

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Apart | None:
        """None for what is like all else."""
        if not statements:
            return cls.NOTHING
        match statements[0].first_word:
            case "copy":
                return cls.COPY
            case "declare" if not _holds(statements[0]):
                return cls.CURSOR
            case _:
                return None


def _holds(statement: Statement) -> bool:
    """Whether a DECLARE says WITH HOLD."""
    words = itertools.takewhile(lambda word: word != "for", (token.text for token in tokens(statement.text)))
    return ("with", "hold") in itertools.pairwise(words)


def check_relayed(session: SessionContext, command: RelayedCommand | None) -> None:
    """Before it is executed at the backend: nobody has cancelled it, and it is where it may be."""
    check(session)
    if command is Apart.CURSOR:
        check_in_block(session)


def check_in_block(session: SessionContext) -> None:
    """25P01 for a cursor where the transaction would end with its DECLARE. By the extended protocol, the gateway's own
    questions are a block for PostgreSQL."""
    if not (session.simple or session.transaction.open or session.pipelining):
        raise SluiceError(SqlState.NO_ACTIVE_SQL_TRANSACTION, "DECLARE CURSOR can only be used in transaction blocks")


RelayedCommand = Apart | TransactionCommand | ConstraintModes | Resetting | Shown | Preparing


def relayed_command(statement: Statement) -> RelayedCommand | None:
    """None for a statement that is relayed, if at all, without more ado."""
    command = transaction_command(statement) or constraint_modes(statement) or resetting(statement) or shown(statement)
    return command or (Preparing(statement.text) if prepares(statement) else None)


def split_and_look(text: str, *settings: str, standard_strings: bool = True) -> Sequence[Statement]:
    """The statements of a query string. Long ones have been asked all that they are asked later: they keep the answers.

    `settings` are those of which it is asked whether they are SET.
    """
    statements = split(text, standard_strings=standard_strings)
    for statement in statements:
        if len(statement.text) >= LONG:
            command = relayed_command(statement)
            if isinstance(command, TransactionCommand):
                savepoint_name(statement, command)
            changed_settings(statement)
            for name in settings:
                setting(statement, name)
    return statements


def prepares(statement: Statement) -> bool:
    """Whether it is PREPARE."""
    return statement.first_word == "prepare" and transaction_command(statement) is None
