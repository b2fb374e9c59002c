"""The row of WHERE CURRENT OF in a shadow, with a cursor of the gateway's on it: the client's cursor is on a row of the
lake.

The cursor is opened when the shadow has no other row yet, so it is on that one, whatever is copied later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from gateway.backend.own_message import of_shadow, shadow_view
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.changes.current_row import present_place
from gateway.execution.filling.taken_rows import too_large
from gateway.execution.reading.postgres_query import is_small
from gateway.execution.shadow.loaded_rows import (
    Loaded,
    live_places,
    load,
    load_all,
    nothing_loaded,
    places_of,
)
from storage.indexes.keys import LiveFile

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext

_NAME: Final = f"{OWN}_current"


class CurrentRow:
    """The row of the table `oid` on which the client's cursor `name` is. `alone`: no other row of it is copied."""

    def __init__(self, name: str, oid: int) -> None:
        self._cursor = name
        self.oid = oid
        self.alone = True
        self._is_there = False
        self._whole: Loaded | None = None

    async def find(self, session: SessionContext, version: TableVersion) -> Loaded:
        """The rows to copy, that row first; 24000 or 34000 if the cursor is on none, 40001 if others have changed it,
        0A000 if it cannot be followed, or the rows are too many."""
        if not (self.alone or is_small([version])):
            raise too_large()
        place = await present_place(session, self._cursor, version)
        rows, self._is_there = await asyncio.to_thread(self._rows, session.gateway.data_path, version, place)
        return rows

    def _rows(self, data_path: str, version: TableVersion, place: tuple[str, int]) -> tuple[Loaded, bool]:
        """The rows, and whether there is one at the place. Blocking."""
        path, position = place
        table, file = version.table, next((file for file in version.files if file.path == path), None)
        wanted = places_of(np.zeros(1, np.int64), np.array([position]))
        there = file is not None and bool(np.isin(wanted, live_places(data_path, table, 0, LiveFile.of(file)))[0])
        if self.alone:
            return (load(data_path, table, [file], wanted) if file and there else nothing_loaded(table)), there
        loaded = load_all(data_path, version)
        number = next((number for number, each in enumerate(loaded.files) if each.path == path), -1)
        chosen = (loaded.file_numbers == number) & (loaded.positions == position)
        self._whole = _in_order(loaded, chosen)
        return _in_order(loaded, ~chosen), there

    def whole(self, oid: int) -> Loaded | None:
        """All rows, if they were copied and the table is this one's. The row is the last one: of rows alike, it is the
        one that was changed."""
        return self._whole if oid == self.oid and not self.alone else None

    @property
    def condition(self) -> str:
        """What finds the row in the shadow, in place of WHERE CURRENT OF the client's cursor."""
        return f"CURRENT OF {_NAME}" if self._is_there else "false"

    @property
    def opening(self) -> Sequence[Statement]:
        """What opens the gateway's cursor when the row is the shadow's only one, and moves it there."""
        if not self._is_there:
            return ()
        declare = f"DECLARE {_NAME} NO SCROLL CURSOR FOR SELECT FROM {shadow_view(self.oid)}"
        return [Statement(of_shadow(self.oid, each)) for each in (declare, f"MOVE {_NAME}")]

    @property
    def closing(self) -> Sequence[Statement]:
        """What closes it."""
        return [Statement(f"CLOSE {_NAME}")] if self._is_there else ()


def _in_order(loaded: Loaded, later: npt.NDArray[np.bool_]) -> Loaded:
    """The rows, `later` ones last."""
    order = np.argsort(later, kind="stable")
    return Loaded(loaded.files, loaded.file_numbers[order], loaded.positions[order], loaded.rows.take(order))
