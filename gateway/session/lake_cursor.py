"""A cursor over the lake: its position, and its rows, which Spark computes as they are fetched.

The movements are PostgreSQL's (pquery.c: DoPortalRunFetch, PortalRunSelect), so that every FETCH and MOVE stops where
PostgreSQL's does. Memory holds a few batches. A cursor that is declared SCROLL, or outlives its transaction, keeps its
rows in a temporary file. PostgreSQL lets other cursors go back if their plan permits it. Those keep their rows while
they are few, and later only move forward.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, Protocol

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.backend import FieldDescription
from storage.spool.row_spool import KeptRows

# The limit of kept bytes for a cursor without SCROLL.
_FEW_BYTES: Final = 4 * 2**20
# PostgreSQL's number for ALL.
FETCH_ALL: Final = 2**63 - 1

Sink = Callable[[pa.RecordBatch], Awaitable[None]]
Waiting = Callable[[], AbstractAsyncContextManager[None]]


class RowStream(Protocol):
    """A stream of batches in lake form."""

    schema: pa.Schema

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over the batches, once."""

    async def close(self) -> None:
        """Release resources; closing twice is allowed."""


class LockedRows(Protocol):
    """The rows of a cursor that locks them, of which some may not be returned."""

    async def look(self) -> None:
        """To be called before each fetch."""

    def take(self, rest: pa.RecordBatch, count: int) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The next of the rows, at most `count`, and what is left of them."""

    def check_end(self) -> None:
        """To be called after the last row."""


class Direction(IntEnum):
    """PostgreSQL's FetchDirection."""

    FORWARD = 0
    BACKWARD = 1
    ABSOLUTE = 2
    RELATIVE = 3


class Keeping(Enum):
    """Which rows are kept for backward movement."""

    NONE = "none"
    WHILE_FEW = "while few"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Declaration:
    """The options of DECLARE or Bind.

    `created` is the backend's creation time in microseconds, which identifies the cursor among those of one name.
    FETCH writes rows as `columns` say, the protocol's Execute as `executed` says. `tag` is the engine's name for it.
    Rows for WHERE CURRENT OF have further columns with their places; `places` gives the numbers of these columns by a
    table's OID. A cursor that `locks` its rows has two such columns for each table, file and position; `places` gives
    the first. Any other has one number for both (planner.translate.row_marks), for one of the files `paths`. `tables`
    are the tables of its query, by OID. `stood_in_for` are the same tables, if the backend has a cursor over no table
    in its place. `rewinds`: the backend's cursor can go back to its start.
    """

    name: str
    created: int
    columns: tuple[FieldDescription, ...]
    executed: tuple[FieldDescription, ...]
    keeping: Keeping
    holds: bool
    tag: str
    places: Mapping[int, Sequence[int]] = field(default_factory=dict)
    locks: bool = False
    paths: Sequence[str] = ()
    tables: Collection[int] = ()
    stood_in_for: Collection[int] = ()
    rewinds: bool = False


class Cursor:
    """An open cursor. `held` is true once it has outlived its transaction; `failed` after an error, when it cannot run
    again.

    `waiting` surrounds each wait for rows, during which the session's backend is free. A cursor with `locked` rows
    moves forward only.
    """

    def __init__(
        self,
        declared: Declaration,
        run: Callable[[], Awaitable[RowStream]],
        waiting: Waiting,
        locked: LockedRows | None = None,
    ) -> None:
        self.declared = declared
        self.held = False
        self.failed = False
        self._waiting = waiting
        self._locked = locked
        self._lock = asyncio.Lock()
        self._keeps_all = declared.keeping is Keeping.ALL
        self._run = run
        self._scrolls = declared.keeping is not Keeping.NONE
        self._at_start = True
        self._at_end = False
        self._position = 0
        self._stream: RowStream | None = None
        self._batches: AsyncIterator[pa.RecordBatch] | None = None
        self._kept: KeptRows | None = None
        self._few_bytes = 0  # bytes of kept rows, without the places
        self._rest: pa.RecordBatch | None = None  # rows that were read, neither kept nor returned
        self._exhausted = False
        self._last: pa.RecordBatch | None = None  # the row that was read last, if it is not kept

    async def fetch(self, direction: Direction, count: int, sink: Sink | None) -> int:
        """FETCH into `sink`, or MOVE without one; returns the number for the command tag."""
        if self.failed:
            raise SluiceError(SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE, f'portal "{self.declared.name}" cannot be run')
        try:
            async with self._lock:
                if self._locked is not None:
                    await self._locked.look()
                return await self._fetch(direction, count, self._shown(sink))
        except SluiceError:
            # As after any error, PostgreSQL's portal is unusable after a refused backward movement.
            self.failed = True
            await self.close()
            raise
        except asyncio.CancelledError:
            self.failed = True
            raise

    async def execute(self, limit: int, sink: Sink) -> int:
        """The protocol's Execute: the next rows, all if `limit` is 0. `at_end` says whether the end was reached."""
        return await self.fetch(Direction.FORWARD, limit or FETCH_ALL, sink)

    @property
    def at_end(self) -> bool:
        """Whether the position is known to be behind the last row."""
        return self._at_end

    async def current(self) -> pa.RecordBatch | None:
        """The current row with its place; None if it is on no row. For cursors with places."""
        if self._at_start or self._at_end:
            return None
        async with self._lock:
            number, kept = self._position - 1, self._kept
            if kept is None or not kept.first <= number < kept.end:
                return self._last
            return await _either(kept, kept.after, number, number + 1)

    def _shown(self, sink: Sink | None) -> Sink | None:
        """The sink, for the visible columns only."""
        if sink is None or not self.declared.places:
            return sink
        shown = self._without_places

        async def send(batch: pa.RecordBatch) -> None:
            await sink(shown(batch))

        return send

    def _without_places(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(list(range(len(self.declared.columns)))) if self.declared.places else batch

    async def hold(self) -> None:
        """At the transaction's end: read the remaining rows of a cursor that outlives it."""
        async with self._lock:
            if not self._at_end:
                while await self._keep_more():
                    pass
        self.held = True

    async def close(self) -> None:
        """Release resources; closing twice is allowed."""
        stream, self._stream, self._batches = self._stream, None, None
        self._exhausted = True
        if stream is not None:
            await stream.close()
        async with self._lock:
            if self._kept is not None:
                self._kept.close()

    # ── PostgreSQL's movements ──────────────────────────────────────────────────────────────────────────

    async def _fetch(self, direction: Direction, count: int, sink: Sink | None) -> int:
        match direction:
            case Direction.ABSOLUTE:
                return await self._absolute(count, sink)
            case Direction.RELATIVE if count > 0:
                if count > 1:
                    await self._forward(count - 1, None)
                return await self._forward(1, sink)
            case Direction.RELATIVE if count < 0:
                if count < -1:
                    await self._backward(-count - 1, None)
                return await self._backward(1, sink)
        forward = (direction is Direction.BACKWARD) == (count < 0) or direction is Direction.RELATIVE
        if count < 0:
            count = -count
        if count == 0:
            return await self._again(forward, sink)
        if forward:
            return await self._forward(count, sink)
        if count == FETCH_ALL and sink is None:
            passed = self._position
            if passed > 0 and not self._at_end:
                passed -= 1
            self._rewind()
            return passed
        return await self._backward(count, sink)

    async def _absolute(self, count: int, sink: Sink | None) -> int:
        if count > 0:
            if count - 1 <= self._position // 2:
                self._rewind()
                if count > 1:
                    await self._forward(count - 1, None)
            else:
                place = self._position + (1 if self._at_end else 0)
                if count <= place:
                    await self._backward(place - count + 1, None)
                elif count > place + 1:
                    await self._forward(count - place - 1, None)
            return await self._forward(1, sink)
        if count < 0:
            await self._forward(FETCH_ALL, None)
            if count < -1:
                await self._backward(-count - 1, None)
            return await self._backward(1, sink)
        self._rewind()
        return await self._forward(0, sink)

    async def _again(self, forward: bool, sink: Sink | None) -> int:
        """Return the current row again."""
        on_row = not self._at_start and not self._at_end
        if sink is None:
            return 1 if on_row else 0
        if on_row:
            await self._backward(1, None)
            return await self._forward(1, sink)
        return await (self._forward(0, sink) if forward else self._backward(0, sink))

    async def _forward(self, count: int, sink: Sink | None) -> int:
        if self._at_end or count <= 0:
            return 0
        done = await self._scan(count, sink)
        if done > 0:
            self._at_start = False
        if count == FETCH_ALL or done < count:
            self._at_end = True
        self._position += done
        return done

    async def _backward(self, count: int, sink: Sink | None) -> int:
        self._check_scrolls()
        if self._at_start or count <= 0:
            return 0
        last = self._position if self._at_end else self._position - 1
        first = max(0, last - count)
        await self._scan_backward(last, first, sink)
        done = last - first
        if done > 0 and self._at_end:
            self._at_end = False
            self._position += 1
        if count == FETCH_ALL or done < count:
            self._at_start = True
            self._at_end = False
            self._position = 0
        else:
            self._position -= done
        return done

    def _rewind(self) -> None:
        if self._at_start and not self._at_end:
            return
        self._check_scrolls()
        self._at_start, self._at_end, self._position = True, False, 0

    def _check_scrolls(self) -> None:
        if not self._scrolls:
            raise SluiceError(
                SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cursor can only scan forward",
                hint="Declare it with SCROLL option to enable backward scan.",
            )

    # ── the rows ────────────────────────────────────────────────────────────────────────────────────────

    async def _scan(self, count: int, sink: Sink | None) -> int:
        """Return the rows from the position on."""
        start = place = self._position
        end = start + count
        while place < end:
            kept = self._kept
            if kept is not None and place < kept.end:
                until = min(end, kept.end)
                if sink is None:
                    place = until
                    continue
                rows = await _either(kept, kept.after, place, until)
            elif self._rest is not None:
                rows = self._take(self._rest, end - place)
            elif await self._read():
                continue
            else:
                break
            if sink is not None and rows.num_rows:
                await sink(rows)
            place += rows.num_rows
        return place - start

    def _take(self, rest: pa.RecordBatch, count: int) -> pa.RecordBatch:
        """Take the next of the rows that were read, at most `count`."""
        if self._locked is None:
            rows, left = rest.slice(0, count), rest.slice(count) if count < rest.num_rows else None
        else:
            rows, left = self._locked.take(rest, count)
        self._rest = left
        if self.declared.places and rows.num_rows:
            self._last = rows.slice(rows.num_rows - 1)
        return rows

    async def _scan_backward(self, last: int, first: int, sink: Sink | None) -> None:
        """Return the rows before `last`, down to `first`."""
        if sink is None:
            return
        while last > first:
            assert self._kept is not None
            rows = await _either(self._kept, self._kept.before, last, first)
            await sink(rows)
            last -= rows.num_rows

    async def _read(self) -> bool:
        """Read the next rows from Spark, to keep or to return; False at the end."""
        if self._exhausted:
            return False
        if self._batches is None:
            self._stream = await self._run()
            self._batches = aiter(self._stream)
            if self._scrolls or self._keeps_all:
                self._kept = KeptRows(self._stream.schema, self._position)
        try:
            async with self._waiting():
                batch = await anext(self._batches)
        except StopAsyncIteration:
            self._exhausted = True
            if self._locked is not None:
                self._locked.check_end()
            return False
        if batch.num_rows == 0:
            return True
        if self._kept is None:
            self._rest = batch
        elif not self._keeps_all and self._few_bytes + self._without_places(batch).nbytes > _FEW_BYTES:
            self._kept.close()
            self._kept, self._rest, self._scrolls = None, batch, False
        else:
            self._few_bytes += self._without_places(batch).nbytes
            await _either(self._kept, self._kept.append, batch)
        return True

    async def _keep_more(self) -> bool:
        """Read and keep more rows without returning them; False at the end."""
        self._keeps_all = True
        if self._kept is None and self._stream is not None:
            # From now on it only moves forward, from its position.
            self._kept = KeptRows(self._stream.schema, self._position)
            if self._rest is not None:
                await _either(self._kept, self._kept.append, self._rest)
                self._rest = None
        return await self._read()


async def _either(kept: KeptRows, work: Callable[..., pa.RecordBatch], *arguments: object) -> pa.RecordBatch:
    """Work on kept rows, in a thread if they are on disk."""
    return await asyncio.to_thread(work, *arguments) if kept.on_disk else work(*arguments)
