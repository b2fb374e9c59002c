"""`sluice.hot_rows`: as many rows of a statement are written to the catalog as hot rows, in place of a Parquet file.

A role, a database or a session may set it; 0 turns hot rows off. Rows that are there stay what they are.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.session.backend_setting import kept
from storage.parquet.hot_rows import HOT_ROWS_MAX

HOT_ROWS: Final = "sluice.hot_rows"
_DEFAULT: Final = kept(HOT_ROWS, "100")
# Defines the setting in a session; values of a role, a database or the client stay.
DEFINE: Final = Statement(f"SELECT pg_catalog.set_config('{HOT_ROWS}', {_DEFAULT}, false)")
# The expression that asks the backend for the setting, beside a statement's other questions.
ASKED: Final = _DEFAULT


def asked(answer: str) -> int:
    """The setting, from the answer to `ASKED`; 22023 for an invalid value."""
    if answer.isascii() and answer.isdigit() and int(answer) <= HOT_ROWS_MAX:
        return int(answer)
    raise SluiceError(
        SqlState.INVALID_PARAMETER_VALUE,
        f'invalid value for parameter "{HOT_ROWS}": "{answer}"',
        hint=f"It is a number of rows, from 0 to {HOT_ROWS_MAX}.",
    )
