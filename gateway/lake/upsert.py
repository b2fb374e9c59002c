"""INSERT … ON CONFLICT: PostgreSQL carries it out in the shadow, over those rows of the lake that it may conflict with.

Which these are is known only when the new rows are: so the statement is tried on an empty shadow first; the rows of the
lake that have keys of what came out are put into the shadow, and it is tried again, until nothing new comes up (mostly
at once, or after one repetition). Of a repetition, the client sees nothing but gaps in sequences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, DataFile, Table, TableVersion
from gateway.backend import Statement
from gateway.lake.changing import Changing
from gateway.lake.claims import CLAIMS_MAX, claim_keys
from gateway.lake.guarded import relay_rows, send_statement
from gateway.lake.insert import target_oid
from gateway.lake.insert_query import insert_batches
from gateway.lake.reading import read
from gateway.lake.shadow import SAVEPOINT, UNDO, copy_rows, qualified, quoted, shadow_rows, to_lake_form
from gateway.messages import frontend
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.transaction import Isolation
from gateway.visibility import current, latest, rules
from planner.nodes import Node, walk
from planner.statements import upsert
from storage.arrow_types import arrow_type
from storage.keys import bounds_of, distinct, find, keys_of, read_positions
from storage.write import replace_rows

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_STATEMENT: Final = Statement("SAVEPOINT pg_sluice_statement")
_AGAIN: Final = Statement("ROLLBACK TO SAVEPOINT pg_sluice_statement")
_LOADED: Final = (
    "SELECT min(number::text) FROM pg_sluice.shadow_rows($1, $2::bigint::oid, 'xmin', 'true') AS rows (number xid)"
)
# PostgreSQL raises these also where a row that the shadow lacks would have led another way.
_CONDITIONAL: Final = (SqlState.CARDINALITY_VIOLATION, SqlState.UNIQUE_VIOLATION)
_POSITION_BITS: Final = 40
# Where the rows that Spark has computed wait to be inserted.
_PROPOSED: Final = "pg_sluice_proposed"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Rows of the lake that are put into the shadow, in parallel: the file, the row's number in it, all its columns."""

    files: tuple[DataFile, ...]
    file_numbers: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    rows: pa.Table

    def by_path(self, chosen: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
        """The positions of the chosen rows, ascending, by the path of their data file."""
        found = {}
        for number, file in enumerate(self.files):
            positions = self.positions[chosen & (self.file_numbers == number)]
            if len(positions):
                found[file.path] = np.sort(positions)
        return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the statement in the shadow: its answers, the rows that it made, the loaded rows that it left."""

    answers: list[bytes]
    tag: str
    fresh: pa.Table
    kept: pa.Table


class UpsertPortal(StatementPortal):
    """INSERT … ON CONFLICT of rows that do not come from the lake."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        oid = target_oid(self.routed.query)
        async with Changing(self, "INSERT") as changing:
            version = await latest(session, oid)
            kept_rules = await rules(session, oid)
            columns = [column for column in version.table.columns if column.attnum not in kept_rules.generated]
            await self._propose(version, columns)
            loaded = nothing_loaded(version.table)
            while True:
                outcome = await self._try(version.table, columns, loaded)
                more = await conflicts(session, version.table, outcome.fresh, loaded)
                if more is not None:
                    loaded, version = more, await latest(session, oid)
                    self._check_visible(version, loaded)
                    continue
                gone = loaded.by_path(_gone(version.table, loaded, outcome.kept))
                path = session.gateway.data_path
                result = await asyncio.to_thread(replace_rows, path, version, gone, [outcome.fresh])
                if await changing.claim(result, version):
                    break
                loaded, version = nothing_loaded(version.table), await latest(session, oid)
            await self._forget()
            every = [column.attnum for column in version.table.columns]
            await changing.wrote(result, version, every if gone else None)
            for data in outcome.answers:
                session.client.write(data)
                await session.client.drain()
            await changing.finish()
        session.client.send(CommandComplete(outcome.tag))

    def _check_visible(self, version: TableVersion, loaded: Loaded) -> None:
        """A level above READ COMMITTED must not act on a row that it does not see."""
        if self.session.transaction.isolation is Isolation.READ_COMMITTED:
            return
        seen = {file.path for file in version.files}
        if any(file.path not in seen for file in loaded.files):
            raise SluiceError(SqlState.SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")

    async def _try(self, table: Table, columns: Sequence[Column], loaded: Loaded) -> Outcome:
        """The client's statement over the loaded rows, in the shadow."""
        session = self.session
        await session.backend.run(SAVEPOINT)
        mark = "-1"
        if loaded.rows.num_rows:
            await copy_rows(session, qualified(table), columns, loaded.rows.select([column.name for column in columns]))
            [result] = await session.backend.run(Statement(_LOADED, (session.gateway.token, str(table.oid))))
            [[number]] = result.rows
            assert number is not None
            mark = number.decode()
        await session.backend.run(_STATEMENT)
        answers: list[bytes] = []
        try:
            await self._send(table, columns)
            tag = await relay_rows(session, answers)
        except SluiceError as error:
            if error.sqlstate not in _CONDITIONAL or session.backend.status != b"E":
                raise
            found = await self._candidates(table, columns, mark)
            if await conflicts(session, table, found, loaded) is None:
                raise
            return Outcome([], "", found, loaded.rows)
        fresh, kept, *_ = await session.backend.run(
            shadow_rows(session, table, f"xmin::text <> '{mark}'"),
            shadow_rows(session, table, f"xmin::text = '{mark}'"),
            *UNDO,
        )
        return Outcome(answers, tag, _table(table, fresh.bodies), _table(table, kept.bodies))

    async def _candidates(self, table: Table, columns: Sequence[Column], mark: str) -> pa.Table:
        """The rows that the statement would insert where it does nothing about conflicts among them."""
        session, binding = self.session, self.binding
        sql = f"{self._source(table, columns)} ON CONFLICT DO NOTHING"
        formats, types = binding.parameter_formats, self.analysis.parameter_types
        await session.backend.run(_AGAIN)
        _, fresh, *_ = await session.backend.run(
            Statement(sql, binding.parameters, types, formats),
            shadow_rows(session, table, f"xmin::text <> '{mark}'"),
            *UNDO,
        )
        return _table(table, fresh.bodies)

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        """Make ready what is to be inserted."""

    async def _forget(self) -> None:
        """Take back what `_propose` did."""

    async def _send(self, table: Table, columns: Sequence[Column]) -> None:  # noqa: ARG002
        send_statement(self.session, self.binding)

    def _source(self, table: Table, columns: Sequence[Column]) -> str:  # noqa: ARG002
        return upsert(self.analysis.sql).source


class UpsertQueryPortal(UpsertPortal):
    """INSERT … SELECT from the lake … ON CONFLICT: Spark computes the rows, into a table for PostgreSQL to read."""

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        if any(node.type == "SUBLINK" for part in (query.onConflict, query.returningList) for node in walk(part)):
            raise unsupported("a subquery in ON CONFLICT or RETURNING beside rows of the lake")
        reading = await read(session, self.analysis, self.binding, self.routed.lake)
        kept = await rules(session, version.table.oid)
        plain = Node(query.type, {**query.fields, "onConflict": None, "returningList": None})
        listed = ", ".join(quoted(column.name) for column in columns)
        like = f"SELECT {listed} FROM {qualified(version.table)} WITH NO DATA"
        await session.backend.run(Statement(f"CREATE TEMPORARY TABLE {_PROPOSED} AS {like}"))
        names = [column.name for column in version.table.columns]
        async for batch in insert_batches(session, plain, version.table, kept, reading):
            rows = pa.Table.from_arrays(batch.columns, names).select([column.name for column in columns])
            await copy_rows(session, f"pg_temp.{_PROPOSED}", columns, rows)

    async def _forget(self) -> None:
        await self.session.backend.run(Statement(f"DROP TABLE pg_temp.{_PROPOSED}"))

    async def _send(self, table: Table, columns: Sequence[Column]) -> None:
        sql, binding = f"{self._source(table, columns)} {upsert(self.analysis.sql).conflict}", self.binding
        if self.session.simple:
            self.session.backend.send(frontend.Query(sql).encode())
            return
        messages = (
            frontend.Parse(_PROPOSED, sql, self.analysis.parameter_types),
            frontend.Bind("", _PROPOSED, binding.parameter_formats, binding.parameters, binding.result_formats),
            frontend.Execute(""),
            frontend.Close(b"S", _PROPOSED),
            frontend.Sync(),
        )
        self.session.backend.send(b"".join(message.encode() for message in messages))

    def _source(self, table: Table, columns: Sequence[Column]) -> str:  # noqa: ARG002
        listed = ", ".join(quoted(column.name) for column in columns)
        head = upsert(self.analysis.sql).head
        return f"{head} ({listed}) OVERRIDING SYSTEM VALUE SELECT {listed} FROM pg_temp.{_PROPOSED}"


def nothing_loaded(table: Table) -> Loaded:
    """No rows."""
    empty = np.empty(0, np.int64)
    return Loaded((), empty, empty, _plain(table).empty_table())


async def conflicts(session: Exchange, table: Table, fresh: pa.Table, loaded: Loaded) -> Loaded | None:
    """The loaded rows and those of the lake that have a key of a fresh row; None where there are no others."""
    wanted = []
    for key in table.keys:
        columns = [table.column(attnum) for attnum in key.attnums]
        arrays = _arrays(fresh, columns)
        keys = keys_of(columns, arrays, nulls_distinct=key.nulls_distinct).drop_null()
        if len(keys):
            if len(keys) <= CLAIMS_MAX:
                await claim_keys(session, key.oid, keys)
            wanted.append((key, columns, distinct(keys)[0], bounds_of(columns, columns, arrays)))
    if not wanted:
        return None
    now = await current(session, table.oid, None)
    live = now.files

    def look() -> Loaded | None:
        files = list(loaded.files)
        numbers = {file.path: number for number, file in enumerate(files)}
        places = [_place(loaded.file_numbers, loaded.positions)]
        for key, columns, keys, bounds in wanted:
            found = find(
                session.gateway.data_path, table, columns, live, keys, bounds, nulls_distinct=key.nulls_distinct
            )
            for each in found.files:
                if each.file.path not in numbers:
                    numbers[each.file.path] = len(files)
                    files.append(each.file)
            renumbered = np.array([numbers[each.file.path] for each in found.files], np.int64)
            places.append(_place(renumbered[found.file_numbers], found.positions))
        every = np.unique(np.concatenate(places))
        if len(every) == len(places[0]):
            return None
        return _load(session.gateway.data_path, table, tuple(files), every)

    return await asyncio.to_thread(look)


def _place(file_numbers: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A file's number and a row's in it as one number."""
    return (file_numbers << _POSITION_BITS) | positions


def _load(data_path: str, table: Table, files: tuple[DataFile, ...], places: npt.NDArray[np.int64]) -> Loaded:
    """The rows at these places, ascending. Blocking."""
    file_numbers, positions = places >> _POSITION_BITS, places & ((1 << _POSITION_BITS) - 1)
    parts = [
        read_positions(data_path, table, file, table.columns, positions[file_numbers == number])
        for number, file in enumerate(files)
    ]
    return Loaded(files, file_numbers, positions, pa.concat_tables(parts))


def _gone(table: Table, loaded: Loaded, kept: pa.Table) -> npt.NDArray[np.bool_]:
    """Which of the loaded rows are no longer as they were: those of which no key is left."""
    left = np.zeros(loaded.rows.num_rows, np.bool_)
    for key in table.keys:
        columns = [table.column(attnum) for attnum in key.attnums]
        before, after = (
            keys_of(columns, _arrays(rows, columns), nulls_distinct=key.nulls_distinct) for rows in (loaded.rows, kept)
        )
        left |= pc.is_in(before, after.drop_null()).to_numpy(zero_copy_only=False)
    return ~left


def _arrays(rows: pa.Table, columns: Sequence[Column]) -> list[pa.Array]:
    """Columns of a table of rows, each as one array."""
    return [pa.concat_arrays(rows[column.name].chunks or [pa.nulls(0, rows[column.name].type)]) for column in columns]


def _table(table: Table, bodies: list[bytes]) -> pa.Table:
    """Rows of the shadow in lake form."""
    batches = [batch.cast(_plain(table)) for batch in to_lake_form(table, bodies)]
    return pa.Table.from_batches(batches, _plain(table))


def _plain(table: Table) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column.form)) for column in table.columns])
