"""Chooses the engine of a query (`planner.plans.placement`) by the session's settings.

`sluice.engine` is `auto`, `postgres` or `spark`; with `spark`, PostgreSQL computes only what Spark refuses.
`sluice.small_rows` limits the rows of all tables of a query that `auto` copies for PostgreSQL.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.session.backend_setting import kept
from gateway.session.cancel_listener import cancelled
from planner.plans.placement import Engine

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext

ENGINE: Final = "sluice.engine"
SMALL_ROWS: Final = "sluice.small_rows"
ENGINES: Final = tuple(Engine)
_ROWS: Final = kept(SMALL_ROWS, "2000")
# Larger files hold large values: copying those takes longer than a Spark job.
_SMALL_BYTES: Final = 512 * 1024
# Time that PostgreSQL has for few rows; after that Spark executes the statement, because intermediate results are
# large.
PATIENCE_SECONDS: Final = 2.0
# How long PostgreSQL waits for a lock or a turn: reading a lake table must not wait.
LOCK_SECONDS: Final = 0.05
_TIME_LIMIT: Final = "SELECT pg_catalog.set_config('statement_timeout', $1, true)"
_LOCK_MILLISECONDS: Final = round(LOCK_SECONDS * 1000)
_LOCK_LIMIT: Final = Statement(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")
# The expression that asks the backend for both settings, beside a statement's other questions.
ASKED: Final = f"pg_catalog.concat(pg_sluice.backend_setting('{ENGINE}', true), ' ', {_ROWS})"


def define(engine: Engine) -> Statement:
    """Define the settings in a session; values of a role, a database or the client stay."""
    return Statement(
        f"SELECT pg_catalog.set_config('{ENGINE}', {kept(ENGINE, engine)}, false),"
        f" pg_catalog.set_config('{SMALL_ROWS}', {_ROWS}, false)"
    )


class Asked(NamedTuple):
    """The session's settings: the engine, and the greatest number of rows that counts as few."""

    engine: Engine
    small_rows: int


def asked(session: SessionContext, answer: str) -> Asked:
    """The settings, from the answer to `ASKED`; 22023 for an invalid value."""
    engine, _, rows = answer.partition(" ")
    if engine and engine not in ENGINES:
        raise _invalid(ENGINE, engine, f"Available values: {', '.join(ENGINES)}.")
    if not (rows.isascii() and rows.isdecimal()):
        raise _invalid(SMALL_ROWS, rows, "It takes a number of rows, 0 for none.")
    return Asked(Engine(engine) if engine else session.gateway.engine_default, int(rows))


def are_few(versions: Collection[TableVersion], small_rows: int) -> bool:
    """Whether these tables together have few rows and few bytes."""
    return (
        sum(version.row_count for version in versions) <= small_rows
        and sum(file.size_bytes for version in versions for file in version.files) <= _SMALL_BYTES
    )


def are_handed(session: SessionContext, answer: str, versions: Collection[TableVersion]) -> bool:
    """Whether these tables have so few rows that PostgreSQL gets them all, by the answer to `ASKED`."""
    given = asked(session, answer)
    return given.engine is not Engine.SPARK and are_few(versions, given.small_rows)


def limits(timeout: float | None) -> list[Statement]:
    """Settings for a savepoint or transaction. The client's own `timeout`, in seconds, stays if it is shorter."""
    found = [_LOCK_LIMIT]
    if _is_limited(timeout):
        found.append(Statement(_TIME_LIMIT, (str(round(PATIENCE_SECONDS * 1000)),)))
    return found


def gives_up(error: SluiceError, timeout: float | None) -> bool:
    """Whether Spark must execute the query, because PostgreSQL failed or exceeded `limits`."""
    if error.sqlstate in (SqlState.FEATURE_NOT_SUPPORTED, SqlState.LOCK_NOT_AVAILABLE):
        return True
    ended = error.sqlstate == SqlState.QUERY_CANCELED and error.message != cancelled().message
    return ended and _is_limited(timeout)


def _is_limited(timeout: float | None) -> bool:
    return (timeout or math.inf) > PATIENCE_SECONDS


def _invalid(name: str, value: str, hint: str) -> SluiceError:
    return SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'invalid value for parameter "{name}": "{value}"', hint=hint)
