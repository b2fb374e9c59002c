"""Applies statement_timeout to the gateway's work on a statement, counted from its arrival as in PostgreSQL.

PostgreSQL itself ends the analysis and its own execution. The gateway's work between them ends at the deadline of the
session's statement (`gateway.session.offload`).
"""

from __future__ import annotations

import re
from typing import Final

from catalog.errors import SluiceError, SqlState

# The expression that asks for the setting; `seconds` reads the answer.
ASKED: Final = "pg_sluice.backend_setting('statement_timeout')"
_SETTING: Final = re.compile(r"(\d+)(ms|s|min|h|d)?")
_MILLISECONDS: Final = {None: 1, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def seconds(setting: str) -> float | None:
    """The setting in seconds; None without a limit."""
    found = _SETTING.fullmatch(setting)
    if found is None:
        raise SluiceError(SqlState.INTERNAL_ERROR, f"statement_timeout is {setting!r}")
    return int(found[1]) * _MILLISECONDS[found[2]] / 1000 or None


def timed_out() -> SluiceError:
    """The error of a statement that took longer than statement_timeout."""
    return SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to statement timeout")


def transaction_timed_out() -> SluiceError:
    """The error that ends a connection whose transaction took longer than transaction_timeout."""
    return SluiceError(
        SqlState.TRANSACTION_TIMEOUT, "terminating connection due to transaction timeout", severity="FATAL"
    )
