"""Names of the gateway's own at a client's backend: of savepoints, statements, portals, cursors and temporary tables.

PostgreSQL keeps these with the client's, so they are names that no client comes upon: a new one with every start of the
gateway. What savepoints are called shows in pg_stat_activity; so a client that names one of them nevertheless is told
that it has none of that name, as it is.
"""

from __future__ import annotations

import secrets
from typing import Final

from catalog.errors import SluiceError, SqlState
from planner.syntax.statements import Statement
from planner.syntax.transaction_commands import TransactionCommand, savepoint_name

# What all of them begin with. It needs no quotes, and leaves much of the 63 bytes that names have.
OWN: Final = f"pg_sluice_{secrets.token_hex(8)}"


def refuse_own_savepoint(statement: Statement, command: object, *, failed: bool) -> None:
    """3B001 for a client's statement about a savepoint of the gateway's, 42939 where it wants to make one.

    Of a transaction that has `failed`, PostgreSQL refuses all but to go back.
    """
    if not isinstance(command, TransactionCommand):
        return
    name = savepoint_name(statement, command)
    if name is None or not name.startswith(OWN) or (failed and command is not TransactionCommand.ROLLBACK_TO_SAVEPOINT):
        return
    if command is TransactionCommand.SAVEPOINT:
        raise SluiceError(SqlState.RESERVED_NAME, f'savepoint name "{name}" is reserved')
    raise SluiceError(SqlState.INVALID_SAVEPOINT, f'savepoint "{name}" does not exist')
