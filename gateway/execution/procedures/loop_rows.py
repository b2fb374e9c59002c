"""The rows of a loop around COMMIT: kept in a spool, because the cursor ends with its transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from gateway.execution.procedures.step_portal import Row, read_rows
from planner.plpgsql.step import Column

if TYPE_CHECKING:
    from gateway.session.response_spool import ResponseSpool

_ROWS_AT_ONCE: Final = 1_000


class LoopRows:
    """Rows as columns with their values; `close` drops the rest. `names` and `types` are those of the columns."""

    def __init__(self, spool: ResponseSpool, names: Sequence[str], types: Sequence[str]) -> None:
        self._spool = spool
        self._columns = list(zip(names, types, strict=True))
        self._read = list[Row]()

    @property
    def nothing(self) -> tuple[Column, ...]:
        """A row of NULLs."""
        return tuple(Column(name, type_, None) for name, type_ in self._columns)

    async def __aiter__(self) -> AsyncIterator[tuple[Column, ...]]:
        while await self._next():
            yield self._row(self._read.pop())

    async def of_array(self) -> bool:
        """Take the rows for the elements of an array: value, number, and whether the array is NULL. Return that."""
        is_null = await self._next() and self._read[-1][2] == b"t"
        if self._read and self._read[-1][1] is None:
            self._read.pop()
        del self._columns[1:]
        return is_null

    async def _next(self) -> bool:
        """Whether there is another row, the last of those that are read."""
        if not self._read:
            taken, count = await self._spool.take_rows(_ROWS_AT_ONCE)
            self._read = read_rows(taken)[::-1] if count else []
        return bool(self._read)

    def _row(self, row: Row) -> tuple[Column, ...]:
        return tuple(
            Column(name, type_, None if value is None else value.decode())
            for (name, type_), value in zip(self._columns, row, strict=False)
        )

    def close(self) -> None:
        self._spool.close()
