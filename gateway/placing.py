"""Who carries a query of the session out (`planner.placement`), as its settings say.

`sluice.engine` is `auto`, `postgres` or `spark`; with the last PostgreSQL computes only what Spark refuses.
`sluice.small_rows` says up to how many rows of all tables of a query together PostgreSQL is handed by `auto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend import Statement
from gateway.kept_setting import kept
from gateway.thinking import thought
from planner.placement import Engine, Placement, placement

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog.model import TableVersion
    from gateway.exchange import Exchange
    from planner.nodes import Node

ENGINE: Final = "sluice.engine"
SMALL_ROWS: Final = "sluice.small_rows"
ENGINES: Final = tuple(Engine)
_ROWS: Final = kept(SMALL_ROWS, "2000")
# Files of more bytes together hold large values: to copy those takes longer than to have Spark look at them.
_SMALL_BYTES: Final = 512 * 1024
# So long PostgreSQL may take with few rows before the query is Spark's: what is large is then what is made of them, and
# a shadow whose rows are read cannot be changed meanwhile.
PATIENCE_SECONDS: Final = 2.0
# What a statement asks for, beside its other questions: both settings.
ASKED: Final = f"pg_catalog.concat(pg_sluice.backend_setting('{ENGINE}', true), ' ', {_ROWS})"


def define(engine: Engine) -> Statement:
    """Makes the settings known to a session; a role's, a database's or the client's own value stays."""
    return Statement(
        f"SELECT pg_catalog.set_config('{ENGINE}', {kept(ENGINE, engine)}, false),"
        f" pg_catalog.set_config('{SMALL_ROWS}', {_ROWS}, false)"
    )


async def placed(
    session: Exchange, query: Node | None, asked: str, versions: Collection[TableVersion], size: int
) -> Placement:
    """Who begins with a query over these tables, of so many characters. `asked` is the answer to `ASKED`; 22023 where
    that says nothing."""
    engine, rows = _settings(asked, session.gateway.engine_default)
    few = (
        sum(version.row_count for version in versions) <= rows
        and sum(file.size_bytes for version in versions for file in version.files) <= _SMALL_BYTES
    )
    return await thought(session, size, placement, engine, query, session.gateway.builtins, few=few)


def _settings(asked: str, default: Engine) -> tuple[Engine, int]:
    engine, _, rows = asked.partition(" ")
    if engine and engine not in ENGINES:
        raise _invalid(ENGINE, engine, f"Available values: {', '.join(ENGINES)}.")
    if not (rows.isascii() and rows.isdecimal()):
        raise _invalid(SMALL_ROWS, rows, "It takes a number of rows, 0 for none.")
    return Engine(engine) if engine else default, int(rows)


def _invalid(name: str, value: str, hint: str) -> SluiceError:
    return SluiceError(SqlState.INVALID_PARAMETER_VALUE, f'invalid value for parameter "{name}": "{value}"', hint=hint)
