"""Executes a query by PostgreSQL, over lake rows copied into the shadows, if Spark cannot compute it alike.

The rows that the query may need are copied into the tables' shadows in a savepoint. The client's own statement runs,
its rows go to the client as they come, and the savepoint is undone. So the answer is PostgreSQL's own, whatever the
query's form. Small tables are copied whole, without Spark. Of larger ones, the rows that satisfy conditions which
Spark can compute (`planner.plans.row_filter`) are copied, or all rows if there are none. The setting
`sluice.load_limit` limits the bytes; more rows leave the query refused. A client's READ ONLY block permits the copies
too (`gateway.transaction.read_only_block`). The effects of VOLATILE functions last
(`gateway.execution.reading.volatile_effects`).

User-defined functions may read tables outside of the query. So for them all tables of the query are copied whole, and
scans of all other shadows are counted around the statement. If there was one, the query is refused afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, TableVersion
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.locks.table_locks import ROW_EXCLUSIVE, lock_relations
from gateway.execution.reading.function_tables import may_leave_effects
from gateway.execution.reading.plan_context import Reading, runnable
from gateway.execution.reading.volatile_effects import LastingEffects
from gateway.execution.shadow.function_guard import changes_beside, count_of, relay_rows, send_statement
from gateway.execution.shadow.shadow import MAY_COPY, copy_rows, put_rows, qualified, resume, runs_checks, suspending
from gateway.execution.shadow.trigger_bypass import bypass_triggers, role_again
from gateway.session.backend_setting import kept
from gateway.session.cancel_listener import check
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import rules
from gateway.statement import query_placement
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.isolation_level import TELL_DEFAULT
from gateway.transaction.read_only_block import SET as READ_ONLY
from planner.plans.computable import acting_functions, functions_of_users, is_computable, session_locking_functions
from planner.plans.row_filter import needed_rows
from planner.spark.plan import SparkQuery
from planner.tree.nodes import Node
from storage.parquet.arrow_types import arrow_type
from storage.parquet.table_rows import live_rows_aside

if TYPE_CHECKING:
    from gateway.execution.reading.handed_rows import Placed
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding

# Up to this many rows of all tables together are copied without an analysis of which are needed: one or two seconds'
# work.
SMALL_ROWS: Final = 200_000
_SMALL_BYTES: Final = 32 * 2**20
LOAD_LIMIT: Final = "sluice.load_limit"
LIMIT: Final = kept(LOAD_LIMIT, "4GB")
# Defines the setting in a session; values of a role, a database or the client stay.
DEFINE: Final = Statement(f"SELECT pg_catalog.set_config('{LOAD_LIMIT}', {LIMIT}, false)")

# READ WRITE for copying rows, whatever default_transaction_read_only is; only the client's statement must not write.
_BEGIN: Final = Statement("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
_MAY_LOAD: Final = (
    "SELECT pg_sluice.backend_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off',"
    # If policies apply to the client, the tables' owners copy the rows.
    f" pg_catalog.bool_and({MAY_COPY.format('o')}),"
    f" pg_catalog.pg_size_bytes({LIMIT}),"
    " pg_sluice.volatile_functions($2::pg_catalog.oid[])"
    " FROM pg_catalog.unnest($1::pg_catalog.oid[]) AS u (o)"
)
_SCANS: Final = "SELECT pg_sluice.shadow_scans($1::pg_catalog.oid[])"
# Scans of parallel workers would not be counted.
IN_ONE_PROCESS: Final = Statement("SET LOCAL max_parallel_workers_per_gather = 0")
# The transaction is idle while files are read; its own timeout must not end it.
NOT_IDLE: Final = Statement("SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)")
# These errors are raised unchanged and do not count as rows that cannot be copied.
_PASSED_ON: Final = (SqlState.QUERY_CANCELED, SqlState.LOCK_NOT_AVAILABLE, SqlState.DATA_CORRUPTED, SqlState.IO_ERROR)
_VOLATILE_HINT: Final = (
    "PostgreSQL computes it over copies of rows. What volatile functions do besides lasts only where a plain SELECT"
    " gives all of its rows at once. Elsewhere they may only compute, as their texts must show."
)


@dataclass(frozen=True, slots=True)
class Load:
    """The rows to copy of a table: these, those that Spark finds, or all."""

    version: TableVersion
    found: SparkQuery | None
    rows: pa.Table | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows are copied."""
        return self.found is None and self.rows is None

    @property
    def row_count(self) -> int:
        """The number of rows, or its upper bound."""
        return self.version.row_count if self.rows is None else self.rows.num_rows


@dataclass(frozen=True, slots=True)
class Locked:
    """The query's row locks are held; of these tables, by OID, no other rows may be copied."""

    rows: Mapping[int, pa.Table]


def loads(
    session: SessionContext,
    query: Node | None,
    reading: Reading,
    refusal: SluiceError,
    locked: Locked | None = None,
    *,
    made_by_users: bool,
    placed: Placed | None = None,
) -> list[Load]:
    """The rows to copy for a query; raises `refusal` if PostgreSQL cannot compute it.

    `made_by_users`: it may call user-defined functions. `placed` has the rows, if they are few.
    """
    assert query is not None
    if placed is not None and placed.few:
        found = {oid: each.rows for oid, each in placed.found.items()}
        return [Load(version, None, found.get(oid)) for oid, version in reading.versions.items()]
    builtins = session.gateway.builtins
    if not is_computable(query, builtins, made_by_users=made_by_users, locked=locked is not None):
        raise refusal
    if locked is not None and locked.rows:
        others = {oid: each for oid, each in reading.versions.items() if oid not in locked.rows}
        beside = loads(session, query, replace(reading, versions=others), refusal, Locked({}), made_by_users=True)
        return [Load(reading.versions[oid], None, rows) for oid, rows in locked.rows.items()] + beside
    versions = list(reading.versions.values())
    if is_small(versions) or functions_of_users(query):
        return [Load(version, None) for version in versions]
    return [Load(version, needed_rows(query, version.table.oid, reading.context)) for version in versions]


def is_small(versions: Sequence[TableVersion]) -> bool:
    """Whether the tables together are small enough to copy all of their rows."""
    rows = sum(version.row_count for version in versions)
    return rows <= SMALL_ROWS and sum(file.size_bytes for version in versions for file in version.files) <= _SMALL_BYTES


def rows_at_once(version: TableVersion) -> int:
    """How many rows of a table are as few as those of a small one."""
    size = sum(file.size_bytes for file in version.files)
    return max(1, min(SMALL_ROWS, _SMALL_BYTES * version.row_count // max(size, 1)))


def _too_much(refusal: SluiceError) -> SluiceError:
    """The refusal, with the limit that would be needed."""
    refusal.fields.setdefault("H", f"PostgreSQL computes it over copies of rows, if {LOAD_LIMIT} allows for so many.")
    return refusal


class Computing:
    """Use: `async with Computing(…) as computing: await computing.send() …`; inside, the shadows contain their rows.

    Raises `refusal` if that is impossible.
    """

    def __init__(
        self,
        session: SessionContext,
        query: Node | None,
        reading: Reading,
        refusal: SluiceError,
        target: int | None = None,
        *,
        made_by_users: bool = False,
        locked: Locked | None = None,
        lasting: bool = False,
        changes: bool = False,
        once: bool = False,
        placed: Placed | None = None,
        apart: bool = False,
        counted: Statement | None = None,
    ) -> None:
        """`target` is a table whose shadow other code fills. `made_by_users`: the caller executes the statement
        `watched`, so it may call user-defined functions. `locked` if the query locks rows. `lasting`: the statement is
        executed once and as a whole, so its functions' effects may last. `changes`: it changes tables outside of the
        lake, which lasts, like its functions' effects. `once`: all of its rows are computed, so its functions may take
        and release session locks, which nothing undoes. `placed`: Spark can execute it too, and does if PostgreSQL
        `gives_up`; the block then goes on. `apart`: the statement has a savepoint of its own, so none is begun if
        nothing is copied. `counted` asks what functions that may only compute have changed.
        """
        self._filled = [*reading.versions, *([] if target is None else [target])]
        self._session = session
        self._query = query
        self._reading = reading
        self._refusal = refusal
        self._alone = False
        self._copied: Counter[int] = Counter()
        self._left = 0  # bytes that may still be copied
        self._may_copy = False
        self._users = frozenset[int]() if query is None else functions_of_users(query)
        builtins = session.gateway.builtins
        self._acting = acting_functions(query, builtins)
        if once:
            self._acting -= session_locking_functions(query, builtins)
        self._made_by_users = made_by_users
        self._locked = locked
        self._lasting = lasting
        self._changes = changes
        self._placed = placed
        self._is_apart = apart
        self._has_turns = False
        self._begun = False  # whether the savepoint has begun
        self._effects: LastingEffects | None = None
        self._is_read = target is None or locked is not None  # nothing but its functions changes rows
        self._counts = False  # whether what its functions change is counted, because it would be undone
        self._counted = counted or changes_beside(0)

    async def __aenter__(self) -> Self:
        try:
            await self._enter()
        except BaseException as error:
            await self._leave(error)
            raise
        return self

    async def _enter(self) -> None:
        session, backend, versions = self._session, self._session.backend, self._reading.versions
        wanted = loads(
            session,
            self._query,
            self._reading,
            self._refusal,
            self._locked,
            made_by_users=self._made_by_users,
            placed=self._placed,
        )
        kept_rules = {oid: await rules(session, version.table) for oid, version in versions.items()}
        await self._take_turns()
        if self._is_apart and not versions:
            return
        self._alone = backend.status == b"I"
        read_only = session.transaction.read_only
        beginning = [_BEGIN, TELL_DEFAULT] if self._alone else []
        if not self._alone:
            await read_only.lift()
        limits = self._limits()
        holding = [catalog_calls.hold_schema([oid]) for oid in versions]
        past = bypass_triggers(version.table for version in versions.values())
        preparing = [*(suspending(load.version.table) for load in wanted), NOT_IDLE, *past]
        may_load = Statement(_MAY_LOAD, (number_array(self._filled), number_array(self._acting)))
        if self._acting or self._changes:
            *_, may = await backend.run(*beginning, may_load)
            await self._check_effects(may)
            self._check_loading(may, wanted)
            self._begun = True
            asked = [TRIAL.begin, *limits, *holding, *(preparing if self._effects is None else [])]
            answers = (await backend.run(*asked))[1 + len(limits) :]
        else:  # its effects do not influence the questions before it
            self._begun = True
            asked = [*beginning, TRIAL.begin, *limits, may_load, *holding, *preparing]
            may, *answers = (await backend.run(*asked))[len(beginning) + 1 + len(limits) :]
            self._check_loading(may, wanted)
        held, others = answers[: len(versions)], answers[len(versions) :]
        for version, answer in zip(versions.values(), held, strict=True):
            session.transaction.enlistment.confirm_held(version.table, answer)
        suspended: Sequence[Result] = others[: len(wanted)]
        if self._effects is not None:
            await self._effects.begin()  # it may keep everything that is done here
            await backend.run(NOT_IDLE)
        for load in wanted:
            generated = kept_rules[load.version.table.oid].generated
            columns = [column for column in load.version.table.columns if column.attnum not in generated]
            await self._load(load, columns)
        await resume(session, suspended)
        if self._effects is not None:
            await self._effects.end_copying()
        elif past:
            await backend.run(role_again(others[-1].rows[0][0]))
        check(session)
        if read_only.is_default if self._alone else read_only.stands:
            await backend.run(READ_ONLY)

    def _check_loading(self, may: Result, wanted: Sequence[Load]) -> None:
        """Read the answer to `_MAY_LOAD`: whether rows may be copied, how, and how many."""
        if may.rows[0][0] != b"t":
            raise self._refusal
        self._may_copy = may.rows[0][1] == b"t"
        self._left = int(may.rows[0][2] or 0)
        whole = (file for load in wanted if load.is_whole for file in load.version.files)
        if sum(file.size_bytes for file in whole) > self._left:
            raise _too_much(self._refusal)

    async def _check_effects(self, may: Result) -> None:
        """Read of the same answer what VOLATILE functions need: their effects last, or they have none."""
        versions, session, volatile = self._reading.versions, self._session, may.rows[0][3]
        if volatile:
            materialized = any(version.table.materialized for version in versions.values())
            only_computes = self._is_read and not self._lasting and self._acting <= self._users
            if (
                materialized
                or may.rows[0][1] != b"t"
                or not (self._lasting or (only_computes and not await may_leave_effects(session, self._users)))
            ):
                raise unsupported(f"the volatile function {volatile.decode()}", hint=_VOLATILE_HINT)
            self._counts = not self._lasting
        if self._changes or (volatile and self._lasting):
            self._effects = LastingEffects(session, versions, read_again=bool(self._users))

    async def _take_turns(self) -> None:
        turns, tables = self._session.gateway.shadow_turns, self._reading.context.tables
        if self._placed is not None:
            keyed = [oid for oid in self._filled if tables[oid].is_keyed]
            try:
                await turns.wait(keyed, query_placement.LOCK_SECONDS)
            except TimeoutError:
                raise self._refusal from None
        turns.take(self._filled)
        self._has_turns = True

    def _limits(self) -> list[Statement]:
        """The limits of a placed statement: seconds of waiting, and locks for which it does not wait."""
        if self._placed is None:
            return []
        lock = lock_relations(self._reading.versions, ROW_EXCLUSIVE, nowait=True)
        return [lock, *query_placement.limits(self._reading.timeout)]

    def gives_up(self, error: SluiceError) -> bool:
        """Whether Spark must execute a `placed` statement."""
        return query_placement.gives_up(error, self._reading.timeout)

    @asynccontextmanager
    async def watched(self, of_rules: frozenset[int] = frozenset()) -> AsyncIterator[None]:
        """Surrounds the statement, which may run functions of rules too (`functions_of_rules`). Raises the refusal if
        a user-defined function has read a table outside of it.
        """
        if not self._users | of_rules:
            yield
            if self._effects is not None:
                await self._effects.take_copies()
            return
        session = self._session
        await session.cursors.watch()
        session.run_functions()
        counted = [Statement(_SCANS, (number_array(self._filled),)), *([self._counted] if self._counts else [])]
        _, *before = await session.backend.run(IN_ONE_PROCESS, *counted)
        yield
        after = await session.backend.run(*counted)
        await session.cursors.check_unmoved()
        if after[0].rows != before[0].rows:
            raise unsupported("a function that reads a lake table which is not in the query")
        if self._counts and count_of(after[1]) != count_of(before[1]):
            raise unsupported("a function that changes a table in a query of this form", hint=_VOLATILE_HINT)
        if self._effects is not None:
            await self._effects.take_copies()

    async def _load(self, load: Load, columns: Sequence[Column]) -> None:
        table = load.version.table
        names = [column.name for column in columns]
        if table.materialized:
            await self._session.backend.run(catalog_calls.open_shadow(table.oid))
        if not names and load.version.row_count:
            raise self._refusal  # rows without a column to copy
        try:
            async for batch in self._rows(load):
                check(self._session)
                self._copied[table.oid] += batch.num_rows
                self.count_copied(batch.nbytes)
                if self._may_copy and not runs_checks(columns):
                    await copy_rows(self._session, qualified(table), columns, batch.select(names))
                else:
                    await put_rows(self._session, table, columns, batch.select(names))
        except BackendLostError:
            raise
        except SluiceError as error:
            if error.sqlstate in _PASSED_ON or error is self._refusal:
                raise
            raise self._refusal from error

    def count_copied(self, size: int) -> None:
        """Count bytes of rows that are copied; raise the refusal for more than the limit."""
        self._left -= size
        if self._left < 0:
            raise _too_much(self._refusal)

    async def _rows(self, load: Load) -> AsyncIterator[pa.RecordBatch]:
        """All columns in lake form, by name."""
        engine = self._session.gateway.engine
        if load.rows is not None:
            for batch in load.rows.to_batches():
                yield batch
            return
        if load.found is None:
            async for batch in live_rows_aside(self._session.gateway.data_path, load.version):
                yield batch
            return
        columns = load.version.table.columns
        schema = pa.schema([(column.name, arrow_type(column.form)) for column in columns])
        stream = await engine.stream(runnable(load.found, self._reading), self._session.tag)
        try:
            async for found in stream:
                yield found.rename_columns(schema.names).cast(schema)
        finally:
            await stream.close()

    async def send(self, binding: Binding, kept: ResponseSpool | None = None) -> str:
        """Let PostgreSQL execute the client's statement; its rows are passed on or `kept`. Returns the tag."""
        async with self.watched():
            await send_statement(self._session, binding)
            return await relay_rows(self._session, kept)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._leave(error)

    def _goes_on(self, error: BaseException) -> bool:
        """Whether a client's block goes on for now, in spite of the error."""
        if self._placed is not None:
            return isinstance(error, SluiceError) and self._session.backend.status in (b"T", b"E")
        return isinstance(error, SchemaChangedError) and self._session.backend.status == b"T"

    async def _leave(self, error: BaseException | None) -> None:
        try:
            await self._end(error)
        finally:
            if self._has_turns:
                self._has_turns = False
                await self._session.gateway.shadow_turns.give_back(self._filled)

    async def _end(self, error: BaseException | None) -> None:
        session, backend = self._session, self._session.backend
        if isinstance(error, BackendLostError):
            return
        if self._alone and error is not None:
            await backend.run(Statement("ROLLBACK"))
        elif error is None or self._goes_on(error):
            if error is None and self._effects is not None:
                await self._effects.keep()
            elif not self._alone and self._begun:
                await backend.run(*TRIAL.undo)
            if self._alone:  # even an empty COMMIT would wait for the disk
                await backend.run(Statement("ROLLBACK" if self._effects is None else "COMMIT"))
        if backend.status == b"T":
            await session.transaction.read_only.restore()
        for oid, rows in self._copied.items():
            session.gateway.store.undone_rows.left(oid, rows)
