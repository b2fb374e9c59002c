"""Every savepoint that the gateway makes at a session's backend: one row each, and nowhere else.

Savepoints nest in the order of the table at most: one that is made within another is undone or released before it.
Names begin with what no client comes upon (`own_names`). Source: PostgreSQL documentation, SAVEPOINT.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.backend.connection import Statement
from gateway.backend.own_names import OWN


class Savepoint(NamedTuple):
    """What begins it, goes back to it, and ends it; `undo` goes back and ends it, with the locks taken since."""

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


# Around each savepoint of the client's in a READ ONLY block: there the gateway may write.
READ_ONLY: Final = _savepoint("read_only")
# The changes of schemas that a block has deferred, while a statement needs them.
WINDOW: Final = _savepoint("window")
# The parts of a statement with data-modifying WITH, to which each attempt goes back.
WITH: Final = _savepoint("with")
# A batch of one INSERT, undone as a whole where a row of it fails.
REPEATED: Final = _savepoint("repeated")
# Functions that are watched for what they touch.
GUARDED: Final = _savepoint("guarded")
# Shadows that are filled for functions and triggers.
FILLED: Final = _savepoint("filled")
# What VOLATILE functions of a query do, which lasts though the copied rows do not.
EFFECTS: Final = _savepoint("effects")
# A look at the shadow, or rows in it: PostgreSQL judges, the gateway reads, and all of it is undone.
TRIAL: Final = _savepoint("trial")
# The statement within such a trial, before which the copied rows are read again.
STATEMENT: Final = _savepoint("statement")
# Locks that are waited for in moments.
PATIENCE: Final = _savepoint("patience")

ALL: Final = (READ_ONLY, WINDOW, WITH, REPEATED, GUARDED, FILLED, EFFECTS, TRIAL, STATEMENT, PATIENCE)
assert len({each.begin.sql for each in ALL}) == len(ALL), "two savepoints have one name"
