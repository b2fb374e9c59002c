"""INSERTs of a client's block that follow another one like them: their rows wait here, and are staged together.

PostgreSQL makes and judges each row in the shadow, as for any INSERT, and the row's keys are claimed and looked up
before its statement is answered. What others alike can do without is an analysis, the settings, a table lock that the
block has already, and a change staged for each. Any other message of the client stages the rows first (`end`). An error
makes the block fail, and what waits is dropped: it came after the last savepoint of the client.

What is not as it was, or not sure, is left to the common way (gateway/execution/changes/insert.py).
"""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import BOOL, BPCHAR, BYTEA, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON, JSONB, TEXT, UUID, VARCHAR
from catalog.errors import SluiceError, SqlState
from catalog.publish import RowChange
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.backend.statement_timeout import timed_out
from gateway.execution.changes.row_changes import ENDING, Changing
from gateway.execution.locks.key_claims import claim_keys
from gateway.execution.shadow.shadow import shadow_rows, to_lake_form
from gateway.session.cancel_listener import check
from gateway.session.visibility import current, own_change
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.inserted import Inserted
from gateway.transaction.isolation_level import Isolation
from gateway.values import convert_binary
from gateway.wire.messages.backend import CommandComplete
from planner.translate.scope import RTE_VALUES
from storage.indexes.keys import KeyChunk, LiveFile, duplicate, keys_of
from storage.spark.async_parquet_writer import WriterAside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.constraints import Key
    from catalog.model import Table, TableVersion
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext
    from gateway.transaction.own_changes import OwnChange
    from gateway.wire.messages.layout import Message
    from planner.tree.nodes import Node

# Others may change, too, whether policies apply to the client.
_MARK: Final = (
    "SELECT pg_sluice.schema_mark_of($1::bigint::pg_catalog.oid),"
    " pg_catalog.row_security_active($1::bigint::pg_catalog.oid)"
)
_ROWS_MAX: Final = 5_000
# Statements of more rows are no series.
_STATEMENT_ROWS_MAX: Final = 100
_BYTES_MAX: Final = 2**20
# All their values fit into lake tables, so that rows need not be read at once.
_HELD_ALWAYS: Final = frozenset(
    {BOOL, BPCHAR, BYTEA, FLOAT4, FLOAT8, INT2, INT4, INT8, JSON, JSONB, TEXT, UUID, VARCHAR}
)
_LENGTH: Final = struct.Struct("!i")
_COUNT_BYTES: Final = 2
# As many data files of the catalog are looked at without a thread.
_FILES_AT_ONCE: Final = 16


def may_be_followed(session: SessionContext, table: Table, query: Node) -> bool:
    """Whether an INSERT that is about to end, in the client's block or in one of its own, may begin a series."""
    if not _makes_few_rows(query):
        return False
    transaction = session.transaction
    plain = (
        not (transaction.deferred.pending or transaction.read_only.stands)
        and transaction.isolation is Isolation.READ_COMMITTED
        and transaction.parts is None
        and not (session.encoding.converts or session.cursors.any_open or session.executing or session.unsynced)
        and session.own_changes is None
    )
    alike = not (
        table.foreign_keys
        or table.computed_keys
        or table.exclusions
        or table.materialized
        or any(key.deferrable for key in table.keys)
    )
    return plain and alike and not transaction.enlistment.alters(table.table_id)


def _makes_few_rows(query: Node) -> bool:
    """Whether VALUES say how many rows it makes, with any parameters, and these are few: they are read at once."""
    sources = query.jointree.fromlist or ()
    if query.hasTargetSRFs or len(sources) > 1:
        return False
    if not sources:
        return True
    entry = query.rtable[sources[0].rtindex - 1] if sources[0].type == "RANGETBLREF" else None
    return entry is not None and entry.rtekind == RTE_VALUES and len(entry.values_lists) <= _STATEMENT_ROWS_MAX


class InsertSeries:
    """The rows that wait, all of one table."""

    def __init__(self, session: SessionContext, inserted: Inserted) -> None:
        self._session = session
        self._version = inserted.version
        self._table = inserted.version.table
        self._mark, self._seconds = inserted.mark, inserted.seconds
        self._has_ended = False
        self._is_bound = False
        self._tag = ""  # of a statement that is being committed
        self._marking = Statement(_MARK, (str(self._table.oid),))
        self._bodies: list[bytes] = []
        self._size = 0
        self._keys: dict[int, set[bytes]] = {key.oid: set() for key in self._table.keys}
        self._own: OwnChange | None = None
        self._seen: tuple[TableVersion, Sequence[LiveFile]] | None = None
        self._places = {column.attnum: place for place, column in enumerate(self._table.columns)}
        self._is_sure = all(
            column.type_oid in _HELD_ALWAYS and column.carried is None and column.user_array is None
            for column in self._table.columns
        )

    async def insert(self, statement: Statement, *ahead: Message) -> bool:
        """Carry out the client's statement, and answer it, with messages `ahead` once it is bound. False if that is
        left to the common way: then nothing of it is left.
        """
        session = self._session
        if self._has_ended:
            return False
        self._is_bound, self._tag = False, ""
        try:
            made = await self._made_in_time(statement)
            if made is None:
                await self.end()
                return False
            if len(self._bodies) >= _ROWS_MAX or self._size >= _BYTES_MAX:
                await self.end()
            if not self._tag:  # it is not committed
                check(session)
        except BackendLostError:
            raise
        except SluiceError as error:
            bound = self._is_bound or session.backend.is_bound
            if not self._is_bound and error.sqlstate not in ENDING and await self._is_excused(error):
                await self.end()
                return False
            if bound:
                _send(session, ahead)
            if self._tag and not session.simple:
                session.client.send(CommandComplete(self._tag))
            if session.cancelled and error.sqlstate != SqlState.QUERY_CANCELED:
                raise SluiceError(SqlState.QUERY_CANCELED, "canceling statement due to user request") from error
            raise
        _send(session, ahead)
        session.client.send(*made.notices, CommandComplete(made.tag))
        return True

    async def _made_in_time(self, statement: Statement) -> Result | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._made(statement)
        except TimeoutError:
            raise timed_out() from None

    async def _made(self, statement: Statement) -> Result | None:
        """What PostgreSQL answers to the statement; None if it is left to the common way."""
        session, oid = self._session, self._table.oid
        if self._own is None:
            self._own = await own_change(session, oid)
            if self._own.description is not None:
                return None
        # The INSERT locks the shadow, until the savepoint is undone; so the mark is that of the schema which it met.
        _, made, mark, rows, *_ = await session.backend.run(
            TRIAL.begin, statement, self._marking, shadow_rows(self._table), *TRIAL.undo
        )
        self._is_bound = True
        try:
            self._read(made, mark, rows)
        except SchemaChangedError:
            return None
        session.transaction.own.told = {oid: self._own}
        try:
            is_free = await self._take_keys(rows.bodies)
        finally:
            session.transaction.own.told = {}
        if is_free:
            self._bodies += rows.bodies
            self._size += sum(map(len, rows.bodies))
        else:
            await self.end()
            await self._insert_commonly(rows.bodies)
        return made

    def _read(self, made: Result, mark: Result, rows: Result) -> None:
        """Raise SchemaChangedError unless these are the statement's rows, by the schema of the series, and the lake can
        hold all of their values.
        """
        self._session.gateway.store.undone_rows.left(self._table.oid, len(rows.bodies))
        whole = rows.bodies and made.tag == f"INSERT 0 {len(rows.bodies)}" and self._is_as_before(mark)
        if not whole or not (self._is_sure or self._is_held(rows.bodies)):
            raise SchemaChangedError(self._table.name, [], stale=True)

    def _is_as_before(self, answer: Result) -> bool:
        """Whether no schema has changed."""
        known, table = self._mark, self._table
        now = f"{known.step} {known.own} {table.table_id} {table.schema_version}"
        return answer.rows[0] == (now.encode(), b"f") and self._session.transaction.enlistment.doom is None

    def _is_held(self, bodies: list[bytes]) -> bool:
        """Whether the lake's table can hold all values of these rows."""
        try:
            to_lake_form(self._table, bodies)
        except SluiceError:
            return False
        return True

    async def _is_excused(self, error: SluiceError) -> bool:
        """Whether the common way tells what is wrong. Raises for a schema that has changed, the better reason."""
        enlistment, table = self._session.transaction.enlistment, self._table
        await enlistment.disturbed()
        found = (await self._session.gateway.store.versions([table.oid])).get(table.oid)
        if found is None or found.table.schema_version != table.schema_version:
            tables = {} if found is None else {table.oid: found.table}
            try:
                await enlistment.use([table.oid], tables, self._mark, self._mark, in_block=True)
            except SchemaChangedError as changed:
                if not changed.stale:
                    raise changed from error
        return False

    async def _take_keys(self, bodies: Sequence[bytes]) -> bool:
        """Claim the rows' keys; false if another row may have one."""
        session = self._session
        if not self._table.keys:
            return True
        rows = [_fields(body) for body in bodies]
        chunks = {key.oid: self._chunk(key, rows) for key in self._table.keys}
        newest = await claim_keys(session, self._table, [(oid, chunk.keys) for oid, chunk in chunks.items()])
        version = None if newest is None or newest.found is None else newest.found.get(self._table.oid)
        if version is None or self._seen is None or self._seen[0] is not version:
            now = await current(session, self._table.oid, None, newest=newest)
            if now.table.schema_version != self._table.schema_version:
                return False
            self._seen = None if version is None else (version, now.files)
            files: Sequence[LiveFile] = now.files
        else:
            files = self._seen[1]
        taken = []
        for key in self._table.keys:
            values = [value for value in chunks[key.oid].keys.to_pylist() if value is not None]
            if len(set(values)) < len(values) or not self._keys[key.oid].isdisjoint(values):
                return False
            if values and files and await self._is_there(key, chunks[key.oid], files):
                return False
            taken.append((key.oid, values))
        for oid, values in taken:
            self._keys[oid].update(values)
        return True

    def _chunk(self, key: Key, rows: Sequence[Sequence[bytes | None]]) -> KeyChunk:
        columns = [self._table.column(attnum) for attnum in key.attnums]
        arrays = [
            convert_binary(
                pa.array([row[self._places[column.attnum]] for row in rows], pa.binary()),
                column.type_oid,
                column.typmod,
                from_postgres=True,
                of_users=column.user_array is not None,
            ).array
            for column in columns
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
        keys = keys_of(columns, arrays, nulls_distinct=key.nulls_distinct)
        valid = keys.is_valid()
        return KeyChunk(keys.filter(valid), batch.filter(valid)) if keys.null_count else KeyChunk(keys, batch)

    async def _is_there(self, key: Key, chunk: KeyChunk, files: Sequence[LiveFile]) -> bool:
        columns = [self._table.column(attnum) for attnum in key.attnums]
        look = partial(
            duplicate,
            self._session.gateway.data_path,
            self._table,
            columns,
            [chunk],
            [],
            files,
            nulls_distinct=key.nulls_distinct,
        )
        few = len(files) <= _FILES_AT_ONCE and all(each.file.hot_rows is not None for each in files)
        return (look() if few else await asyncio.to_thread(look)) is not None

    async def _insert_commonly(self, bodies: Sequence[bytes]) -> None:
        """Insert made rows in the common way: raise the error for a key that exists, or wait for who removes it."""
        async with Changing(Alone(self._session), "INSERT") as changing:
            async with self._writer() as writer:
                await writer.write_made(partial(to_lake_form, self._table, list(bodies)))
                result = await writer.finish()
            await changing.wrote(result, self._version)
            await changing.finish()

    def _writer(self) -> WriterAside:
        session = self._session
        return WriterAside(session.gateway.data_path, self._table, session.transaction.hot_rows_max)

    async def end(self) -> None:
        """Stage the rows; the series takes no more."""
        self._has_ended = True
        bodies, self._bodies = self._bodies, []
        if not bodies:
            return
        async with self._writer() as writer:
            await writer.write_made(partial(to_lake_form, self._table, bodies), self._size)
            result = await writer.finish()
        transaction = self._session.transaction
        transaction.written.update(path.lstrip("/") for path in result.paths(self._table.path))
        await transaction.stage(RowChange(self._table.oid, result.data_files))


class Alone:
    """A statement whose time PostgreSQL limits, where it waits."""

    def __init__(self, session: SessionContext) -> None:
        self.session = session

    def limit_time(self, _: float | None) -> None:
        """Nothing is left to do that takes time."""


def _send(session: SessionContext, messages: Sequence[Message]) -> None:
    for message in messages:
        session.send_noted(message)


def _fields(body: bytes) -> list[bytes | None]:
    """The values of a DataRow's body."""
    values: list[bytes | None] = []
    place = _COUNT_BYTES
    while place < len(body):
        (length,) = _LENGTH.unpack_from(body, place)
        place += _LENGTH.size
        values.append(None if length < 0 else bytes(body[place : place + length]))
        place += max(length, 0)
    return values
