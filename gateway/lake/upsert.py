"""INSERT … ON CONFLICT: PostgreSQL carries it out in the shadow, over those rows of the lake that it may conflict with.

Which these are is known only when the new rows are: so the statement is tried on an empty shadow first; the rows of the
lake that have keys of what came out are put into the shadow, and it is tried again, until nothing new comes up (mostly
at once, or after one repetition). Of a repetition, the client sees nothing but gaps in sequences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, Table, TableVersion
from gateway.analysis import UNDO
from gateway.backend import Statement
from gateway.lake.changing import Changing
from gateway.lake.claims import CLAIMS_MAX, claim_keys
from gateway.lake.guarded import send_statement
from gateway.lake.insert import target_oid
from gateway.lake.insert_query import insert_batches
from gateway.lake.reading import read
from gateway.lake.rehearsal import (
    PROPOSED,
    Loaded,
    Outcome,
    begin,
    conclude,
    gone,
    load,
    made,
    nothing_loaded,
    one_array,
    places_of,
    rehearse,
    rows_of,
    send_own,
    strength_of,
)
from gateway.lake.row_locks import changed_meanwhile
from gateway.lake.shadow import copy_rows, qualified, shadow_rows
from gateway.portal import StatementPortal
from gateway.transaction import Isolation
from gateway.visibility import current, left_by_parts, rules, used
from planner.lexer import quoted
from planner.nodes import Node, walk
from planner.statements import upsert
from storage.keys import bounds_of, distinct, find, keys_of
from storage.write import replace_rows

if TYPE_CHECKING:
    from gateway.exchange import Exchange

_DO_UPDATE: Final = 2  # OnConflictAction of nodes.h
# PostgreSQL raises these also where a row that the shadow lacks would have led another way.
_CONDITIONAL: Final = (SqlState.CARDINALITY_VIOLATION, SqlState.UNIQUE_VIOLATION)


class UpsertPortal(StatementPortal):
    """INSERT … ON CONFLICT of rows that do not come from the lake."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        oid = target_oid(self.routed.query)
        async with Changing(self, "INSERT", oid) as changing:
            version = await self._version(oid, changing)
            if version.table.computed_keys:
                raise unsupported("ON CONFLICT on a table with a UNIQUE index over expressions, or with WHERE,")
            kept_rules = await rules(session, version.table)
            columns = [column for column in version.table.columns if column.attnum not in kept_rules.generated]
            await self._propose(version, columns)
            loaded = nothing_loaded(version.table)
            while True:
                outcome = await self._try(version.table, columns, loaded)
                more = await conflicts(session, version.table, outcome.fresh, loaded)
                if more is None:
                    self._check_parts(version, loaded)
                    replaced = await gone(version.table, loaded, outcome.kept)
                    path = session.gateway.data_path
                    result = await asyncio.to_thread(replace_rows, path, version, replaced, [outcome.fresh])
                    if await changing.claim(result, version, strength_of(version.table, loaded, outcome)):
                        break
                    more = nothing_loaded(version.table)
                loaded, version = more, await self._version(oid, changing)
                self._check_visible(version, loaded)
            await self._forget()
            await conclude(self, changing, version, outcome, result)

    async def _version(self, oid: int, changing: Changing) -> TableVersion:
        version = await used(self.session, oid, self.analysis.mark, changing.mark)
        return await left_by_parts(self.session, version)

    def _check_parts(self, version: TableVersion, loaded: Loaded) -> None:
        """A part of a statement must not change rows that another has made, nor can it such as it does not see."""
        assert self.routed.query is not None
        updates = int(self.routed.query.onConflict.action) == _DO_UPDATE
        if self.session.transaction.parts is None or not updates:
            return
        seen = {file.path for file in version.files}
        unseen = [file for file in loaded.files if file.path not in seen]
        if any(file.data_file_id is None for file in unseen):
            raise SluiceError(
                SqlState.CARDINALITY_VIOLATION,
                "ON CONFLICT DO UPDATE command cannot affect row a second time",
                hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained"
                " values.",
            )
        if unseen:
            raise changed_meanwhile()

    def _check_visible(self, version: TableVersion, loaded: Loaded) -> None:
        """A level above READ COMMITTED must not act on a row that it does not see."""
        if self.session.transaction.isolation is Isolation.READ_COMMITTED:
            return
        seen = {file.path for file in version.files}
        if any(file.path not in seen for file in loaded.files):
            raise changed_meanwhile()

    async def _try(self, table: Table, columns: Sequence[Column], loaded: Loaded) -> Outcome:
        """The client's statement over the loaded rows, in the shadow."""
        session = self.session

        async def send() -> None:
            self._send(columns)

        try:
            return await rehearse(session, table, columns, loaded, send)
        except SluiceError as error:
            if error.sqlstate not in _CONDITIONAL or session.backend.status != b"E":
                raise
            found = await self._candidates(table, columns, loaded)
            if await conflicts(session, table, found, loaded) is None:
                raise
            return Outcome([], "", found, loaded.rows)

    async def _candidates(self, table: Table, columns: Sequence[Column], loaded: Loaded) -> pa.Table:
        """The rows that the statement would insert where it does nothing about conflicts among them."""
        session, binding = self.session, self.binding
        statement = Statement(
            f"{self._source(columns)} ON CONFLICT DO NOTHING",
            binding.parameters,
            self.analysis.parameter_types,
            binding.parameter_formats,
        )
        await session.backend.run(*UNDO)
        mark = await begin(session, table, columns, loaded)
        _, fresh, *_ = await session.backend.run(statement, shadow_rows(session, table, made(mark)), *UNDO)
        return rows_of(table, fresh.bodies)

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        """Make ready what is to be inserted."""

    async def _forget(self) -> None:
        """Take back what `_propose` did."""

    def _send(self, columns: Sequence[Column]) -> None:  # noqa: ARG002
        send_statement(self.session, self.binding)

    def _source(self, columns: Sequence[Column]) -> str:  # noqa: ARG002
        return upsert(self.analysis.sql).source


class UpsertQueryPortal(UpsertPortal):
    """INSERT … SELECT from the lake … ON CONFLICT: Spark computes the rows, into a table for PostgreSQL to read."""

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        if any(node.type == "SUBLINK" for part in (query.onConflict, query.returningList) for node in walk(part)):
            raise unsupported("a subquery in ON CONFLICT or RETURNING beside rows of the lake")
        reading = await read(session, self.analysis, self.binding, self.routed.lake)
        kept = await rules(session, version.table)
        plain = Node(query.type, {**query.fields, "onConflict": None, "returningList": None})
        listed = ", ".join(quoted(column.name) for column in columns)
        like = f"SELECT {listed} FROM {qualified(version.table)} WITH NO DATA"
        await session.backend.run(Statement(f"CREATE TEMPORARY TABLE {PROPOSED} AS {like}"))
        names = [column.name for column in version.table.columns]
        async for batch in insert_batches(session, plain, version.table, kept, reading):
            rows = pa.Table.from_arrays(batch.columns, names).select([column.name for column in columns])
            await copy_rows(session, f"pg_temp.{PROPOSED}", columns, rows)

    async def _forget(self) -> None:
        await self.session.backend.run(Statement(f"DROP TABLE pg_temp.{PROPOSED}"))

    def _send(self, columns: Sequence[Column]) -> None:
        sql = f"{self._source(columns)} {upsert(self.analysis.sql).conflict}"
        send_own(self.session, sql, self.binding, self.analysis.parameter_types)

    def _source(self, columns: Sequence[Column]) -> str:
        listed = ", ".join(quoted(column.name) for column in columns)
        head = upsert(self.analysis.sql).head
        return f"{head} ({listed}) OVERRIDING SYSTEM VALUE SELECT {listed} FROM pg_temp.{PROPOSED}"


async def conflicts(session: Exchange, table: Table, fresh: pa.Table, loaded: Loaded) -> Loaded | None:
    """The loaded rows and those of the lake that have a key of a fresh row; None where there are no others."""
    wanted = []
    for key in table.keys:
        columns = [table.column(attnum) for attnum in key.attnums]
        arrays = [one_array(fresh, column) for column in columns]
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
        places = [places_of(loaded.file_numbers, loaded.positions)]
        for key, columns, keys, bounds in wanted:
            found = find(
                session.gateway.data_path, table, columns, live, keys, bounds, nulls_distinct=key.nulls_distinct
            )
            for each in found.files:
                if each.file.path not in numbers:
                    numbers[each.file.path] = len(files)
                    files.append(each.file)
            renumbered = np.array([numbers[each.file.path] for each in found.files], np.int64)
            places.append(places_of(renumbered[found.file_numbers], found.positions))
        every = np.unique(np.concatenate(places))
        if len(every) == len(places[0]):
            return None
        return load(session.gateway.data_path, table, files, every)

    return await asyncio.to_thread(look)
