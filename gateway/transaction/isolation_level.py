"""The level of the client's transaction, told to its backend, which is at READ COMMITTED
(gateway.transaction.transaction).

What asks there for `transaction_isolation` is answered by it (catalog/sql/isolation.sql). Savepoints do not take it
back, for PostgreSQL lets none set a level, nor does RESET ALL (gateway.statement.reset_all).
"""

from __future__ import annotations

from typing import Final

from gateway.backend.connection import Statement

_LEVEL: Final = "sluice.isolation"
# Holds the name of the other while that holds a level.
_SETTING: Final = "sluice.isolation_setting"
NAMES: Final = (_LEVEL, _SETTING)
# In a block of the gateway's own, for one statement outside of the client's: the level is the default.
TELL_DEFAULT: Final = Statement(f"SET LOCAL {_SETTING} = 'default_transaction_isolation'")


def tell_level(level: str | None) -> tuple[Statement, Statement]:
    """Until the transaction ends the level is this (a word of PostgreSQL's), or, with None, that of the backend.

    They take no snapshot: after that the level could not be set any more.
    """
    return (
        Statement(f"SET LOCAL {_LEVEL} = '{level or ''}'"),
        Statement(f"SET LOCAL {_SETTING} = '{'' if level is None else _LEVEL}'"),
    )
