"""All savepoints that the gateway makes at a session's backend, one row each.

Savepoints nest in the order of the table at most: an inner one is undone or released before its outer one. Clients
cannot guess their names (`own_names`). Source: PostgreSQL documentation, SAVEPOINT.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement


class Savepoint(NamedTuple):
    """The statements that begin a savepoint, return to it, and release it; `undo` returns and releases, which frees
    later locks.
    """

    begin: Statement
    again: Statement
    release: Statement

    @property
    def undo(self) -> tuple[Statement, Statement]:
        return self.again, self.release


def _savepoint(purpose: str) -> Savepoint:
    name = f"{OWN}_{purpose}"
    return Savepoint(
        Statement(f"SAVEPOINT {name}"),
        Statement(f"ROLLBACK TO SAVEPOINT {name}"),
        Statement(f"RELEASE SAVEPOINT {name}"),
    )


# Around each savepoint of the client in a READ ONLY block: the gateway may write there.
READ_ONLY: Final = _savepoint("read_only")
# The deferred schema changes of a block, while a statement needs them.
WINDOW: Final = _savepoint("window")
# The parts of a statement with data-modifying WITH, to which each attempt returns.
WITH: Final = _savepoint("with")
# A batch of one INSERT, undone as a whole if a row fails.
REPEATED: Final = _savepoint("repeated")
# Functions under the function guard.
GUARDED: Final = _savepoint("guarded")
# Shadows that are filled for functions and triggers.
FILLED: Final = _savepoint("filled")
# The effects of a query's VOLATILE functions, which last while the copied rows are removed.
EFFECTS: Final = _savepoint("effects")
# A trial over the shadow, or copied rows in it: PostgreSQL judges, the gateway reads, and everything is undone.
TRIAL: Final = _savepoint("trial")
# The statement within such a trial; before it, the copied rows are read again.
STATEMENT: Final = _savepoint("statement")
# The values that a step of a procedure leaves, read under settings of their own.
VALUES: Final = _savepoint("values")
# Locks that are taken in short attempts.
PATIENCE: Final = _savepoint("patience")

# The last questions before a COMMIT in the same round trip.
ENDING: Final = _savepoint("ending")

ALL: Final = (READ_ONLY, WINDOW, WITH, REPEATED, GUARDED, FILLED, EFFECTS, TRIAL, STATEMENT, VALUES, PATIENCE, ENDING)
assert len({each.begin.sql for each in ALL}) == len(ALL), "two savepoints have one name"
