"""WHERE CURRENT OF: finds the present version of the row that a cursor is on.

Source: execCurrent.c and nodeTidscan.c of PostgreSQL, which follows a row through its replacements to the version that
the statement sees, and finds none if the row was deleted. The session records replacements by its own statements
(`gateway.session.row_versions`). A row that another transaction has replaced is not followed: 40001, as above READ
COMMITTED.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog.delete_history import deletions_of
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.own_statement import Statement
from gateway.execution.changes.insert import target_oid
from gateway.execution.locks.row_locks import changed_meanwhile
from gateway.transaction.isolation_level import Isolation
from planner.plans.change_plan import current_of
from planner.translate.row_marks import unpacked_place

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.model import DeleteFile, Table, TableVersion
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.lake_cursor import Cursor, Declaration
    from gateway.session.session_context import SessionContext
    from planner.spark.plan import Place
    from planner.tree.nodes import Node

_KNOWN: Final = "SELECT FROM pg_catalog.pg_cursors WHERE name OPERATOR(pg_catalog.=) $1"


async def with_current_row(session: SessionContext, query: Node, reading: Reading) -> Reading:
    """The reading with the row of WHERE CURRENT OF, if the statement has that."""
    name = current_of(query)
    if name is None:
        return reading
    place = await present_place(session, name, reading.versions[target_oid(query)])
    return replace(reading, context=replace(reading.context, current=place))


async def present_place(session: SessionContext, name: str, version: TableVersion) -> tuple[str, int]:
    """The present place in the table of the row that the cursor of that name is on; a place without a row, if it was
    deleted. 34000 or 24000 if it is on none, 40001 if others have changed it, 0A000 if it cannot be followed.
    """
    cursor = await session.cursors.find(name)
    if cursor is None:
        [known] = await session.backend.run(Statement(_KNOWN, (name,)))
        if not known.rows:
            raise SluiceError(SqlState.INVALID_CURSOR_NAME, f'cursor "{name}" does not exist')
        raise _not_simple(name, version.table)
    if cursor.held:
        raise _wrong(f'cursor "{name}" is held from a previous transaction')
    column = _column(cursor, version.table)
    row = await cursor.current()
    if row is None:
        raise _wrong(f'cursor "{name}" is not positioned on a row')
    if row.num_columns <= column:
        raise unsupported("WHERE CURRENT OF a cursor whose query PostgreSQL computes")
    found = _place(cursor.declared, row, column)
    if found is None:
        raise unsupported("WHERE CURRENT OF a row in one of two files with the same checksum of their names")
    return await _now(session, version, found)


def _column(cursor: Cursor, table: Table) -> int:
    """The number of the column with the file of the table's row."""
    declared = cursor.declared
    columns = declared.places.get(table.oid, ())
    if not columns and not declared.locks:
        raise _not_simple(declared.name, table)
    if not columns:
        raise _wrong(f'cursor "{declared.name}" does not have a FOR UPDATE/SHARE reference to table "{table.name}"')
    if len(columns) > 1:
        raise _wrong(f'cursor "{declared.name}" has multiple FOR UPDATE/SHARE references to table "{table.name}"')
    return columns[0]


def _place(declared: Declaration, row: pa.RecordBatch, column: int) -> Place:
    first = row.column(column)[0].as_py()
    return (first, row.column(column + 1)[0].as_py()) if declared.locks else unpacked_place(first, declared.paths)


async def _now(session: SessionContext, version: TableVersion, place: tuple[str, int]) -> tuple[str, int]:
    """The present place of the row that the cursor found at `place`; a place without a row, if it was deleted."""
    trace = session.cursors.replaced.trace(version.table.oid, place)
    for known in reversed(trace.places):
        if await _is_there(session, version, known):
            return known
    if session.transaction.isolation is Isolation.READ_COMMITTED and await _taken_by_others(session, version, place):
        return place
    if trace.lost:
        raise unsupported("WHERE CURRENT OF a row that its transaction has replaced untraced")
    return place


async def _is_there(session: SessionContext, version: TableVersion, place: tuple[str, int]) -> bool:
    path, position = place
    file = next((file for file in version.files if file.path == path), None)
    if file is None:
        return False
    return file.delete_file is None or not await _deletes(session, version.table, file.delete_file, position)


async def _taken_by_others(session: SessionContext, version: TableVersion, place: tuple[str, int]) -> bool:
    """Whether another transaction has deleted the row. Raises 40001 if it may have replaced it, or if the row was
    rewritten.
    """
    path, position = place
    found = await deletions_of(session.gateway.store, version.table, path)
    if found is None:
        return False
    first, end = 0, len(found.files)
    while first < end:  # each file includes the positions of the one before
        middle = (first + end) // 2
        if await _deletes(session, version.table, found.files[middle][0], position):
            end = middle
        else:
            first = middle + 1
    if first == len(found.files):
        if found.live:
            return False
        raise changed_meanwhile()
    _, adds = found.files[first]
    if adds:
        raise changed_meanwhile()
    return True


async def _deletes(session: SessionContext, table: Table, delete_file: DeleteFile, position: int) -> bool:
    return await session.gateway.engine.deletes_any(table, delete_file, np.array([position], np.int64))


def _not_simple(name: str, table: Table) -> SluiceError:
    return _wrong(f'cursor "{name}" is not a simply updatable scan of table "{table.name}"')


def _wrong(text: str) -> SluiceError:
    return SluiceError(SqlState.INVALID_CURSOR_STATE, text)
