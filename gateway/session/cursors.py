"""A session's cursors over the lake, declared by SQL or bound as named portals.

The backend has each cursor too, made by the client's statement over the empty shadows. So names, options, duplicates,
savepoints, CLOSE, the transaction's end and `pg_cursors` are PostgreSQL's. Before COMMIT a cursor WITH HOLD is read,
and the backend gets one over nothing in its place, which `pg_cursors` shows. Each use asks the backend whether the
cursor is still the declared one. The gateway has the rows: FETCH, MOVE and the protocol's Execute never reach the
backend.

A function could still fetch from the backend's empty cursor. A cursor that cannot scroll tells so: it does not go back
to its start once it was moved. So before functions run, `watch` gives the backend a cursor over nothing in place of one
that scrolls, and `check_unmoved` asks afterwards. A savepoint that is undone would undo the replacement alone, so it
precedes the client's first savepoint at the latest.

In a block with deferred changes (`gateway.transaction.transactional_ddl`) a cursor cannot stay in its window. The
backend then has a cursor over no table in its place, too, and is told of the tables when one of them is changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.session.row_versions import ReplacedRows
from planner.syntax.lexer import quoted

if TYPE_CHECKING:
    from gateway.session.lake_cursor import Cursor
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult

CREATED: Final = "(extract(epoch FROM creation_time) OPERATOR(pg_catalog.*) 1000000)::bigint"
_NAMES: Final = (
    "SELECT pg_catalog.string_agg(pg_catalog.format('ONLY %I.%I', n.nspname, c.relname), ', ')"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
    " WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])"
)
_ALIVE: Final = (
    f"SELECT name, {CREATED} FROM pg_catalog.pg_cursors WHERE name OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])"
)


def over_nothing(name: str, *, binary: bool, holds: bool) -> Statement:
    """The declaration of a cursor without columns and rows, for the backend. `refuse_held` in publish.sql knows it."""
    words = ("DECLARE", quoted(name), "BINARY" * binary, "NO SCROLL CURSOR", "WITH HOLD" * holds)
    return Statement(f"{' '.join(filter(None, words))} FOR SELECT WHERE false")


@dataclass(slots=True)
class OpenedCursor:
    """A cursor that a function has opened: the shadows that were filled then, and whether its query runs code of users;
    None if that was not asked."""

    filled: frozenset[int]
    runs_code: bool | None = None


class Cursors:
    """The cursors by name. `close` closes all. `replaced` records the new versions of rows that cursors are on."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._open: dict[str, Cursor] = {}
        self.replaced = ReplacedRows()
        # Backend cursors that functions have opened, by name and creation time.
        self.filled: dict[tuple[bytes | None, bytes | None], OpenedCursor] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def is_stood_in_for(self, name: str) -> bool:
        """Whether the backend has a substitute for that cursor."""
        return name in self._open and bool(self._open[name].declared.stood_in_for)

    async def add(self, cursor: Cursor) -> None:
        """Add a declared cursor. An older one of the same name has ended unnoticed."""
        before = self._open.pop(cursor.declared.name, None)
        if before is not None:
            await before.close()
        if not any(each.declared.places for each in self._open.values()):
            self.replaced.clear()
        self._open[cursor.declared.name] = cursor

    async def find(self, name: str, *, sync: bool = True) -> Cursor | None:
        """The lake's cursor of that name; None if the backend alone has one, or there is none."""
        if name in self._open:
            [alive] = await self._session.backend.run(self.question(name), sync=sync)
            return await self.found(name, alive)
        return None

    async def found(self, name: str, alive: Result) -> Cursor | None:
        """`find`, with the answer to `question`."""
        if name in self._open:
            await self._forget_dead([name], alive)
        return self._open.get(name)

    def question(self, *names: str) -> Statement:
        """The statement that asks the backend for the cursors of these names."""
        quoted = ",".join('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)
        return Statement(_ALIVE, ("{" + quoted + "}",))

    async def look(self) -> None:
        """Close the cursors that the backend no longer has."""
        if self._open and self._session.backend.status != b"E":
            [alive] = await self._session.backend.run(self.question(*self._open))
            await self._forget_dead(list(self._open), alive)

    async def hold(self) -> None:
        """Before COMMIT: read the remaining rows of cursors WITH HOLD."""
        if not any(cursor.declared.holds and not cursor.held for cursor in self._open.values()):
            return
        await self.look()
        for cursor in self._open.values():
            if cursor.declared.holds and not cursor.held:
                if not cursor.failed:
                    with self._session.cancellable(cursor.declared.tag):
                        await cursor.hold()
                # It would compute the query once more, over empty shadows, while no session can commit.
                await self._empty(cursor)
                cursor.held = True

    async def _empty(self, cursor: Cursor) -> None:
        """Give the backend a cursor over nothing in this one's place."""
        declared, run = cursor.declared, self._session.backend.run
        binary = any(column.format for column in declared.columns)
        declare = over_nothing(declared.name, binary=binary, holds=declared.holds)
        *_, made = await run(Statement(f"CLOSE {quoted(declared.name)}"), declare, self.question(declared.name))
        created = made.rows[0][1]
        assert created is not None
        cursor.declared = replace(declared, created=int(created), rewinds=False, stood_in_for=declared.tables)

    def others(self, told: Result) -> Result:
        """Of the backend's cursors, in rows that begin with their names: those that are none over the lake."""
        return Result(rows=[row for row in told.rows if str(row[0] or b"", "utf-8") not in self._open])

    @property
    def any_open(self) -> bool:
        """Whether any cursor is open, as far as known."""
        return bool(self._open)

    async def watch(self) -> None:
        """Before functions run, and before a savepoint of the client: see that `check_unmoved` can tell what functions
        do with the backend's cursors. 0A000 within a savepoint of the gateway, which may be undone.
        """
        session = self._session
        if session.backend.status != b"T" or not any(cursor.declared.rewinds for cursor in self._open.values()):
            return
        await self.look()
        await session.transaction.read_only.lift()
        for cursor in self._open.values():
            if cursor.declared.rewinds:
                if session.backend.savepoints:
                    raise unsupported("a function while a cursor is open that it might read")
                await self._empty(cursor)
        await session.transaction.read_only.restore()

    async def check_unmoved(self) -> None:
        """After functions have run: raise 0A000 if one has used a cursor. The backend has no rows for it."""
        if not self._open or self._session.backend.status == b"E":
            return
        run = self._session.backend.run
        [alive] = await run(self.question(*self._open))
        names = [name for name, created in _created(alive).items() if created == self._open[name].declared.created]
        try:
            await run(*[Statement(f"MOVE BACKWARD ALL IN {quoted(name)}") for name in names])
        except SluiceError as error:
            if error.sqlstate != SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE:
                raise
            raise unsupported("a function that uses a cursor of the session") from None

    @asynccontextmanager
    async def occupying(self, oids: Iterable[int]) -> AsyncIterator[None]:
        """Before PostgreSQL changes these tables: it refuses the change if a cursor reads one."""
        if not any(cursor.declared.stood_in_for for cursor in self._open.values()):
            yield
            return
        await self.look()
        read = {oid for cursor in self._open.values() if not cursor.held for oid in cursor.declared.stood_in_for}
        changed = read & set(oids)
        if not changed:
            yield
            return
        run = self._session.backend.run
        [names] = await run(Statement(_NAMES, (number_array(changed),)))
        listed = (names.rows[0][0] or b"").decode()
        await run(Statement(f"DECLARE {OWN}_occupying NO SCROLL CURSOR FOR SELECT FROM {listed}"))
        yield
        await run(Statement(f"CLOSE {OWN}_occupying"))

    def follow(self, table_oid: int) -> bool:
        """Whether a cursor may be on rows of the table, so that changes must be recorded."""
        return any(table_oid in cursor.declared.places and not cursor.held for cursor in self._open.values())

    def note(self, table_oid: int, result: WriteResult) -> None:
        """Record that a statement has changed rows of a table."""
        if self.follow(table_oid):
            self.replaced.note(table_oid, result)
        elif not any(cursor.declared.places for cursor in self._open.values()):
            self.replaced.clear()

    async def close(self) -> None:
        """Close everything at the session's end."""
        for cursor in self._open.values():
            await cursor.close()
        self._open.clear()

    async def _forget_dead(self, names: list[str], alive: Result) -> None:
        created = _created(alive)
        for name in names:
            if created.get(name) != self._open[name].declared.created:
                await self._open.pop(name).close()


def _created(alive: Result) -> dict[str, int]:
    """The creation times of cursors by name, from the answer to `Cursors.question`."""
    return {str(name, "utf-8"): int(when) for name, when in alive.rows if name is not None and when is not None}
