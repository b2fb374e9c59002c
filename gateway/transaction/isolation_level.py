"""The isolation levels, and telling the client's to its backend, which itself runs at READ COMMITTED
(gateway.transaction.transaction).

The backend answers queries of `transaction_isolation` by it (catalog/sql/isolation.sql). Savepoints do not restore it,
because PostgreSQL lets none set a level; neither does RESET ALL (gateway.statement.reset_all).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gateway.backend.own_statement import Statement

_LEVEL: Final = "sluice.isolation"
# Holds the name of the setting that holds a level.
_SETTING: Final = "sluice.isolation_setting"
NAMES: Final = (_LEVEL, _SETTING)
# In a gateway's block for one statement outside of the client's: the level is the default.
TELL_DEFAULT: Final = Statement(f"SET LOCAL {_SETTING} = 'default_transaction_isolation'")


class Isolation(StrEnum):
    """The distinct levels; READ UNCOMMITTED is READ COMMITTED, as in PostgreSQL."""

    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"


def isolation_of(level: bytes | None) -> Isolation:
    """The level that PostgreSQL names."""
    assert level is not None
    text = level.decode()
    return Isolation.READ_COMMITTED if text == "read uncommitted" else Isolation(text)


def tell_level(level: str | None) -> tuple[Statement, Statement]:
    """Set the level (PostgreSQL's word) until the transaction ends; None means the backend's own level.

    The statements take no snapshot, because the level could not be set afterwards.
    """
    return (
        Statement(f"SET LOCAL {_LEVEL} = '{level or ''}'"),
        Statement(f"SET LOCAL {_SETTING} = '{'' if level is None else _LEVEL}'"),
    )
