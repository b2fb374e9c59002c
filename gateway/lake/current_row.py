"""WHERE CURRENT OF: the row that a cursor FOR UPDATE or FOR SHARE is on.

Source: execCurrent.c of PostgreSQL. Other cursors do not tell where their rows are. A row that its transaction has
replaced since is followed where that was done to the current row, too; what became of it otherwise, nobody knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend import Statement
from gateway.lake.insert import target_oid
from planner.change import current_of

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.exchange import Exchange
    from gateway.lake.reading import Reading
    from planner.nodes import Node
    from storage.write import WriteResult

_KNOWN: Final = "SELECT FROM pg_catalog.pg_cursors WHERE name = $1"


async def with_current_row(session: Exchange, query: Node, reading: Reading) -> Reading:
    """The reading with the row that the statement means, if it has WHERE CURRENT OF."""
    name = current_of(query)
    if name is None:
        return reading
    oid = target_oid(query)
    table = reading.versions[oid].table.name
    cursor = await session.cursors.find(name)
    if cursor is None:
        [known] = await session.backend.run(Statement(_KNOWN, (name,)))
        if not known.rows:
            raise SluiceError(SqlState.INVALID_CURSOR_NAME, f'cursor "{name}" does not exist')
        raise _wrong(f'cursor "{name}" is not a simply updatable scan of table "{table}"')
    if cursor.held:
        raise _wrong(f'cursor "{name}" is held from a previous transaction')
    places = cursor.declared.places
    if not places:
        raise unsupported("WHERE CURRENT OF a cursor without FOR UPDATE or FOR SHARE")
    if oid not in places:
        raise _wrong(f'cursor "{name}" does not have a FOR UPDATE/SHARE reference to table "{table}"')
    if len(places[oid]) > 1:
        raise _wrong(f'cursor "{name}" has multiple FOR UPDATE/SHARE references to table "{table}"')
    row = cursor.current
    if row is None:
        raise _wrong(f'cursor "{name}" is not positioned on a row')
    [column] = places[oid]
    first = row.column(column)[0].as_py(), row.column(column + 1)[0].as_py()
    for place in reversed((first, *cursor.moves)):
        if await _is_there(session, reading.versions[oid], place):
            return replace(reading, context=replace(reading.context, current=place))
    raise unsupported("WHERE CURRENT OF a row that its transaction has changed or deleted otherwise")


async def note_move(session: Exchange, query: Node, result: WriteResult) -> None:
    """The current row was replaced: the cursor is on the one that came in its place."""
    name = current_of(query)
    cursor = None if name is None else await session.cursors.find(name)
    if cursor is not None and result.data_files:
        cursor.moves.append((result.data_files[0].path, 0))


async def _is_there(session: Exchange, version: TableVersion, place: tuple[str, int]) -> bool:
    path, position = place
    file = next((file for file in version.files if file.path == path), None)
    if file is None:
        return False
    if file.delete_file is None:
        return True
    positions = np.array([position], np.int64)
    return not await session.gateway.engine.deletes_any(version.table, file.delete_file, positions)


def _wrong(text: str) -> SluiceError:
    return SluiceError(SqlState.INVALID_CURSOR_STATE, text)
