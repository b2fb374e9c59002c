"""statement_timeout while a statement is thought about: PostgreSQL counts from when the statement comes.

PostgreSQL itself ends the analysis, and what it carries out. What is left is what the gateway does between these: it
ends at the deadline of the session's statement (`gateway.session.offload`).
"""

from __future__ import annotations

import re
from typing import Final

from catalog.errors import SluiceError, SqlState

# What tells the setting, as `seconds` reads it.
ASKED: Final = "pg_sluice.backend_setting('statement_timeout')"
_SETTING: Final = re.compile(r"(\d+)(ms|s|min|h|d)?")
_MILLISECONDS: Final = {None: 1, "ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def seconds(setting: str) -> float | None:
    """What the setting allows; None where there is no limit."""
    found = _SETTING.fullmatch(setting)
    if found is None:
        raise SluiceError(SqlState.INTERNAL_ERROR, f"statement_timeout is {setting!r}")
    return int(found[1]) * _MILLISECONDS[found[2]] / 1000 or None


def timed_out() -> SluiceError:
    """What a statement says that took longer than statement_timeout."""
    return SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to statement timeout")
