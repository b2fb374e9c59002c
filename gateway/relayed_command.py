"""What a relayed statement does to the session or its transaction, that the gateway has to know of."""

from __future__ import annotations

from dataclasses import dataclass

from planner.changed_settings import Resetting, resetting
from planner.statements import ConstraintModes, Statement, constraint_modes
from planner.transaction_commands import Shown, TransactionCommand, shown, transaction_command


@dataclass(frozen=True, slots=True)
class Preparing:
    """PREPARE: what was prepared in a savepoint outlives it, and so is prepared in one that is undone."""

    sql: str


RelayedCommand = TransactionCommand | ConstraintModes | Resetting | Shown | Preparing


def relayed_command(statement: Statement) -> RelayedCommand | None:
    """None for a statement that is relayed, if at all, without more ado."""
    command = transaction_command(statement) or constraint_modes(statement) or resetting(statement) or shown(statement)
    return command or (Preparing(statement.text) if prepares(statement) else None)


def prepares(statement: Statement) -> bool:
    """Whether it is PREPARE."""
    return statement.first_word == "prepare" and transaction_command(statement) is None
