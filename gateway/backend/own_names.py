"""The gateway's names at a client's backend: of savepoints, statements, portals, cursors and temporary tables.

PostgreSQL keeps them in the client's namespaces, so they contain a random part, new at each start of the gateway.
Savepoints' names show in pg_stat_activity. A client that uses one gets the error for a missing savepoint.
"""

from __future__ import annotations

import secrets
from typing import Final

from catalog.errors import SluiceError, SqlState
from planner.syntax.statements import Statement
from planner.syntax.transaction_commands import TransactionCommand, savepoint_name

# The prefix of all of them. It needs no quotes, and leaves most of a name's 63 bytes.
OWN: Final = f"pg_sluice_{secrets.token_hex(8)}"


def refuse_own_savepoint(statement: Statement, command: object, *, failed: bool) -> None:
    """Raise 3B001 for a client's statement about a savepoint of the gateway, and 42939 if it would make one.

    In a `failed` transaction, PostgreSQL refuses everything but ROLLBACK TO.
    """
    if not isinstance(command, TransactionCommand):
        return
    name = savepoint_name(statement, command)
    if name is None or not name.startswith(OWN) or (failed and command is not TransactionCommand.ROLLBACK_TO_SAVEPOINT):
        return
    if command is TransactionCommand.SAVEPOINT:
        raise SluiceError(SqlState.RESERVED_NAME, f'savepoint name "{name}" is reserved')
    raise SluiceError(SqlState.INVALID_SAVEPOINT, f'savepoint "{name}" does not exist')
