"""Cursors that functions leave open, and those of DECLARE over functions.

Such a cursor sees the rows that were copied when it was opened, though shadows are empty again: its snapshot is older.
VOLATILE functions that its query calls have newer snapshots, so rows are copied again before each FETCH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, unsupported
from gateway.backend.connection import Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.session.cursors import CREATED
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from planner.syntax import statements
from planner.tree.nodes import parse
from planner.tree.references import runs_unseen

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

CURSORS: Final = Statement(
    f"SELECT name, {CREATED}, is_holdable FROM pg_catalog.pg_cursors"
    " WHERE pg_catalog.length(name) OPERATOR(pg_catalog.>) 0"
    f" AND NOT pg_catalog.starts_with(name, '{OWN}') ORDER BY name"
)
_DECLARE: Final = "declare"
_OF_TEXT: Final = "42"  # the class of errors in names and syntax
_QUERY: Final = (
    f"SELECT name, {CREATED}, statement FROM pg_catalog.pg_cursors"
    " WHERE name OPERATOR(pg_catalog.=) $1::pg_catalog.text"
)


def beside_cursor() -> SluiceError:
    """Why a statement cannot be executed again: PostgreSQL would not undo what it does to a cursor."""
    return unsupported("a function that reads a lake table while a cursor is open")


def opened(before: Result, now: Result) -> list[tuple[bytes | None, ...]]:
    """The cursors that a statement has left open, by the answers to `CURSORS` around it. 0A000 for one that would read
    the rest of its rows at COMMIT."""
    left_open = [row for row in now.rows if row not in set(before.rows)]
    if any(is_holdable == b"t" for *_, is_holdable in left_open):
        raise unsupported("a cursor WITH HOLD from within a function")
    return left_open


def saw(session: SessionContext, name: str, cursors: Result, touched: set[int]) -> bool:
    """Whether these tables were copied when a function opened the cursor of that name, one of `cursors`."""
    filled = session.cursors.filled
    keys = [(found, created) for found, created, _ in cursors.rows if found == name.encode()]
    return any(key in filled and touched <= filled[key].filled for key in keys)


async def copied_again(session: SessionContext, name: str) -> frozenset[int]:
    """The tables, by OID, whose rows must be copied before this cursor is fetched from."""
    if not session.cursors.filled:
        return frozenset()
    [answer] = await session.backend.run(Statement(_QUERY, (name,)))
    for found, created, text in answer.rows:
        cursor = session.cursors.filled.get((found, created))
        if cursor is not None and cursor.filled:
            if cursor.runs_code is None:
                cursor.runs_code = await _runs_code(session, str(text or b"", "utf-8"))
            return cursor.filled if cursor.runs_code else frozenset()
    return frozenset()


async def _runs_code(session: SessionContext, sql: str) -> bool:
    """Whether a cursor's query may run code of users. So does one that cannot be analysed alone, as it names variables
    of its function."""
    if sql[: len(_DECLARE)].lower() == _DECLARE:
        sql = sql[await offloaded(session, len(sql), statements.declared, sql) :]
    try:
        analysis = await analysed(session, sql, name=OWN, sync=True)
    except SluiceError as error:
        if session.backend.status != b"E" or not error.sqlstate.startswith(_OF_TEXT):
            raise
        await session.backend.run(*TRIAL.undo)  # in which a block's statements are analysed
        return True
    tree = await offloaded(session, analysis.tree.size, parse, analysis.tree)
    return await offloaded(session, analysis.tree.size, runs_unseen, tree, session.gateway.builtins)
