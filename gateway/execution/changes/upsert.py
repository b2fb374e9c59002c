"""INSERT … ON CONFLICT: PostgreSQL executes it in the shadow, over the lake rows that may conflict.

The new rows must be known to find these. So the statement first runs over an empty shadow, or, where the keys that it
proposes are constants, over the rows that have them. Lake rows with keys of its result are then copied into the shadow,
and it runs again, until no further rows are found (mostly at once, or after one repetition). It is repeated with the
rows that it proposed before (`gateway.execution.changes.proposed_rows`); if they are unknown, the client sees gaps in
sequences.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, Table, TableVersion
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.conflict_arbiter import conflicts
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.insert_query import insert_batches
from gateway.execution.changes.proposed_rows import values_proposed
from gateway.execution.changes.row_changes import Changing
from gateway.execution.changes.shadow_execution import (
    PROPOSED,
    Outcome,
    are_written_at_once,
    aside,
    begin,
    conclude,
    gone,
    has_key,
    made,
    met,
    must_note,
    paired,
    rehearse,
    rows_of,
    send_own,
    strength_of,
)
from gateway.execution.constraints.expression_keys import check_computable
from gateway.execution.locks.awaited_changes import others_change
from gateway.execution.locks.row_locks import changed_meanwhile, hold_met
from gateway.execution.locks.row_locks import strength_of as strength_to_change
from gateway.execution.reading.handed_rows import rows_by_keys_aside
from gateway.execution.reading.plan_context import read
from gateway.execution.reading.postgres_query import SMALL_ROWS, Computing, is_small
from gateway.execution.shadow.function_guard import guarding, guarding_functions, send_statement, without_rows
from gateway.execution.shadow.kept_effects import has_effects, refuse_effects
from gateway.execution.shadow.loaded_rows import Loaded, load_all, nothing_loaded
from gateway.execution.shadow.shadow import copy_rows, qualified, shadow_rows
from gateway.session.offload import offloaded
from gateway.session.visibility import functions_of_rules, left_by_parts, rules, used
from gateway.statement.portal import StatementPortal
from gateway.transaction.isolation_level import Isolation
from planner.plans.computable import functions_of_users
from planner.plans.proposed_keys import proposed_keys
from planner.syntax.lexer import quoted
from planner.syntax.statements import upsert
from planner.translate.row_security import conditions
from planner.tree.references import common_names, tables_of_subqueries, tables_read
from storage.spark.write import replace_rows

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading

_DO_UPDATE: Final = 2  # OnConflictAction of nodes.h
# PostgreSQL raises these also when a row missing in the shadow would have caused another outcome.
_CONDITIONAL: Final = (
    SqlState.CARDINALITY_VIOLATION,
    SqlState.UNIQUE_VIOLATION,
    SqlState.EXCLUSION_VIOLATION,
    SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,  # no conflict by the other keys, and then a deferrable one
)
# Classes of errors that depend on the rows which a statement meets.
_CLASSES_OF_ROWS: Final = ("21", "22", "23", "44", "55", "P0")
_ALL_DEFERRED: Final = Statement("SET CONSTRAINTS ALL DEFERRED")


class UpsertPortal(StatementPortal):
    """INSERT … ON CONFLICT of rows that do not come from the lake."""

    _tried = False
    _may_guess = True
    _guessed = False  # whether the trial is over rows that the statement probably meets
    _known: str | None = None  # the proposed rows, in place of the source

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        oid = target_oid(self.routed.query)
        if has_effects(session, self.routed.query):
            refuse_effects("beside ON CONFLICT")
        async with Changing(self, "INSERT", oid) as changing:
            version = await self._version(oid, changing)
            check_computable(session, version.table)
            kept_rules = await rules(session, version.table)
            columns = [column for column in version.table.columns if column.attnum not in kept_rules.generated]
            functions = functions_of_rules(kept_rules)
            set_alone = self._set_alone(version.table, kept_rules.generated)
            noting = self._updates and set_alone is None and await must_note(session, version.table)
            await self._propose(version, columns)
            loaded = await self._loaded(version)
            while True:
                try:
                    async with self._beside(version.table, functions):
                        outcome = await self._try(version.table, columns, loaded, noting=noting)
                except SluiceError as error:
                    if not await self._meets_change(error, version, loaded):
                        raise
                    outcome = None
                if outcome is None:
                    version, self._guessed = await self._version(oid, changing), False
                    loaded = await self._loaded(version)
                    continue
                hot_rows = session.transaction.hot_rows_max
                few = are_written_at_once(version.table, loaded, outcome, hot_rows)
                sources = await aside(few, paired, version.table, loaded, outcome)
                assigned = set_alone if set_alone is not None and _are_all(sources) else None
                more = None if assigned is not None else await self._conflicts(version.table, outcome, loaded)
                if more is None and not await self._waits_for_change(version, loaded):
                    self._check_parts(version, loaded)
                    replaced = await gone(version.table, loaded, outcome.kept)
                    path = session.gateway.data_path
                    result = await aside(few, replace_rows, path, version, replaced, [outcome.fresh], hot_rows)
                    rows = await met(version.table, loaded, outcome) if outcome.locked.num_rows else replaced
                    strength = strength_of(version.table, loaded, outcome)
                    if await changing.claim(result, version, strength, rows, sources):
                        break
                await self._keep_proposed(version.table, columns, outcome)
                version = await self._version(oid, changing)
                loaded = more or await self._loaded(version)
                self._check_visible(version, loaded)
            await self._forget()
            await conclude(self, changing, version, outcome, result, sources=sources, assigned=assigned)

    async def _keep_proposed(self, table: Table, columns: Sequence[Column], outcome: Outcome) -> None:
        """Keep the rows of the first trial over an empty shadow, to repeat the statement with them."""
        if self._tried or self._guessed:
            self._guessed = False
            return
        self._tried = True
        query = self.routed.query
        assert query is not None
        if outcome.tag:  # otherwise an error came, and not all rows are known
            self._known = await values_proposed(self.session, query, table, columns, outcome.fresh)

    async def _version(self, oid: int, changing: Changing) -> TableVersion:
        version = await used(self.session, oid, self.analysis.mark, changing.mark)
        return await left_by_parts(self.session, version)

    @property
    def _updates(self) -> bool:
        assert self.routed.query is not None
        return int(self.routed.query.onConflict.action) == _DO_UPDATE

    @property
    def _assigned(self) -> set[int]:
        """The columns that DO UPDATE sets."""
        assert self.routed.query is not None
        return {int(target.resno) for target in self.routed.query.onConflict.onConflictSet}

    def _set_alone(self, table: Table, generated: Collection[int]) -> set[int] | None:
        """The columns that differ in rows which DO UPDATE replaces, if they keep their keys whatever it computes."""
        attnums = {attnum for key in table.keys for attnum in key.attnums}
        attnums.update(attnum for each in table.exclusions for attnum in each.attnums)
        changed = {*generated, *(self._assigned if self._updates else ())}
        keeps = has_key(table) and not (table.triggered or table.computed_keys) and attnums.isdisjoint(changed)
        return changed if keeps else None

    async def _conflicts(self, table: Table, outcome: Outcome, loaded: Loaded) -> Loaded | None:
        """The rows that the statement must be tried with, too."""
        everything = self._needs_all(table)
        return await conflicts(self.session, table, outcome.fresh, loaded, everything=everything)

    def _check_parts(self, version: TableVersion, loaded: Loaded) -> None:
        """Raise if the statement, a part of another, would change a row that another part made, or one that it does
        not see.
        """
        if self.session.transaction.parts is None or not self._updates:
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
        """Raise if a level above READ COMMITTED would change a row that it does not see."""
        if self.session.transaction.isolation is Isolation.READ_COMMITTED:
            return
        seen = {file.path for file in version.files}
        if any(file.path not in seen for file in loaded.files):
            raise changed_meanwhile()

    async def _try(self, table: Table, columns: Sequence[Column], loaded: Loaded, *, noting: bool) -> Outcome | None:
        """Execute the client's statement over the loaded rows, in the shadow. None if it fails over guessed rows: they
        may not be there by now, and others may be missing.
        """
        session = self.session

        async def send() -> None:
            await self._send(columns)

        try:
            statement = self._without_rows(columns)
            return await rehearse(session, table, columns, loaded, send, noting=noting, statement=statement)
        except SluiceError as error:
            if self._guessed and error.sqlstate[:2] in _CLASSES_OF_ROWS and session.backend.status == b"E":
                await session.backend.run(*TRIAL.undo)
                return None
            if error.sqlstate not in _CONDITIONAL or session.backend.status != b"E":
                raise
            found = await self._candidates(table, columns, loaded, error)
            if await conflicts(session, table, found, loaded) is None:
                raise
            return Outcome([], "", found, loaded.rows, loaded.rows.slice(0, 0))

    async def _waits_for_change(self, version: TableVersion, loaded: Loaded) -> bool:
        """Whether another transaction has changed or deleted a row with which DO NOTHING found a conflict."""
        if self._updates or not loaded.rows.num_rows or self._needs_all(version.table):
            return False
        rows = loaded.by_path(np.ones(loaded.rows.num_rows, np.bool_))
        return await others_change(self.session, version, rows)

    async def _meets_change(self, error: SluiceError, version: TableVersion, loaded: Loaded) -> bool:
        """Whether another transaction has changed a row that the statement met before the error, which is then none:
        as in PostgreSQL, it waits for that row and locks it before it computes the new one.
        """
        session, table, query = self.session, version.table, self.routed.query
        assert query is not None
        if not self._updates or not loaded.rows.num_rows or self._needs_all(table):
            return False
        if error.sqlstate[:2] not in _CLASSES_OF_ROWS or session.backend.status == b"I":
            return False
        if session.backend.status == b"E":
            await session.backend.run(*TRIAL.undo)
        rows = loaded.by_path(np.ones(loaded.rows.num_rows, np.bool_))
        return not await hold_met(session, rows, version, strength_to_change(table, self._assigned))

    async def _candidates(
        self, table: Table, columns: Sequence[Column], loaded: Loaded, error: SluiceError
    ) -> pa.Table:
        """The rows that the statement would insert without ON CONFLICT. It has raised the error, which is raised again
        if they cannot be told.
        """
        session, binding = self.session, self.binding
        arbiter, modes = "", list[Statement]()
        # Without an arbiter, PostgreSQL refuses those keys.
        if any(each.deferrable for each in table.keys) or any(each.deferrable for each in table.exclusions):
            # PostgreSQL leaves out rows with equal keys by one key that is not deferrable, and checks the others later.
            key = next((each for each in table.keys if not each.deferrable and not each.exclusion), None)
            if key is None:
                raise error
            arbiter = f" ({', '.join(quoted(table.column(attnum).name) for attnum in key.attnums)})"
            modes = [_ALL_DEFERRED]
        statement = Statement(
            f"{self._source(columns)} ON CONFLICT{arbiter} DO NOTHING",
            binding.parameters,
            self.analysis.parameter_types,
            binding.parameter_formats,
        )
        await session.backend.run(*TRIAL.undo)
        mark = await begin(session, table, columns, loaded)
        rows = shadow_rows(table, made(mark))
        try:
            *_, fresh = await session.backend.run(*modes, statement, rows)
        except SluiceError as other:
            raise (error if arbiter else other) from other
        await session.backend.run(*TRIAL.undo)
        return rows_of(table, fresh.bodies)

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        """Prepare the rows to insert."""

    async def _forget(self) -> None:
        """Undo `_propose`."""

    async def _loaded(self, version: TableVersion) -> Loaded:
        """The rows of the table that the statement needs, conflicts or not; and those that it probably meets, for its
        first trial."""
        session, query, table = self.session, self.routed.query, version.table
        assert query is not None
        may_guess, self._may_guess = self._may_guess, False
        # A row that DO NOTHING meets is not locked, so its key has to be claimed. Above READ COMMITTED others may have
        # deleted the row since the snapshot.
        if not may_guess or not self._updates or session.transaction.isolation is not Isolation.READ_COMMITTED:
            return nothing_loaded(table)
        if table.triggered or table.computed_keys or table.exclusions:
            return nothing_loaded(table)
        found, size, builtins = None, self.analysis.tree.size, session.gateway.builtins
        wanted = await offloaded(session, size, proposed_keys, query, table, builtins, self.binding.canonical)
        if wanted is not None:
            size += sum(len(parameter.text or "") for parameter in self.binding.canonical)
            found = await rows_by_keys_aside(session.gateway.data_path, version, wanted, size)
        self._guessed = found is not None and found.rows.num_rows > 0
        return found if found is not None and self._guessed else nothing_loaded(table)

    def _needs_all(self, table: Table) -> bool:  # noqa: ARG002
        """Whether the statement reads other rows of its table than those with conflicts."""
        return False

    def _beside(self, table: Table, functions: frozenset[int]) -> AbstractAsyncContextManager[object]:
        """Surrounds the statement: copies rows of other tables that it needs. The functions are those of the table's
        rules.
        """
        return guarding_functions(self.session, functions, table, filled=True)

    async def _send(self, columns: Sequence[Column]) -> None:
        if self._known is None:
            await send_statement(self.session, self.binding)
        else:
            await send_own(self.session, self._with_known(columns), self.binding, self.analysis.parameter_types)

    def _without_rows(self, columns: Sequence[Column]) -> Statement | None:
        """What `_send` sends, if its answer has no rows."""
        own = without_rows(self)
        if own is None or self._known is None:
            return own
        types = self.analysis.parameter_types
        return replace(own, sql=self._with_known(columns), parameter_types=types, prepared=None)

    def _with_known(self, columns: Sequence[Column]) -> str:
        """The statement over the rows that the first trial has proposed."""
        return f"{self._source(columns)}{self.analysis.taken_apart(upsert).conflict}"

    def _source(self, columns: Sequence[Column]) -> str:  # noqa: ARG002
        parts = self.analysis.taken_apart(upsert)
        return parts.source if self._known is None else f"{parts.head} {self._known}"


def _are_all(sources: pa.Table | None) -> bool:
    """Whether the `paired` rows have one for each new row."""
    return sources is not None and sources.num_rows > 0 and sources["position"].null_count == 0


class UpsertQueryPortal(UpsertPortal):
    """INSERT … SELECT from the lake … ON CONFLICT: Spark computes the rows, into a table for PostgreSQL to read.

    If Spark cannot, or if user-defined functions run, PostgreSQL executes the unchanged statement. Tables that it
    reads for that, and in subqueries of ON CONFLICT and RETURNING, are copied as for a PostgreSQL query.
    """

    _reading: Reading
    _refusal: SluiceError | None = None

    async def _keep_proposed(self, table: Table, columns: Sequence[Column], outcome: Outcome) -> None:
        """Nothing to keep: the rows are in a table, or the statement may read the shadow."""

    async def _propose(self, version: TableVersion, columns: Sequence[Column]) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        self._reading = await read(session, self.analysis, self.binding, self.routed.lake)
        if functions_of_users(query) or common_names((query.onConflict, query.returningList)):
            self._refusal = unsupported("an INSERT with ON CONFLICT of this kind")
            return
        kept = await rules(session, version.table)
        plain = query.replaced(onConflict=None, returningList=None, withCheckOptions=None)
        listed = ", ".join(quoted(column.name) for column in columns)
        like = f"SELECT {listed} FROM {qualified(version.table)} WITH NO DATA"
        session.transaction.deferred.need_window()
        await session.backend.run(Statement(f"CREATE TEMPORARY TABLE {PROPOSED} AS {like}"))
        names = [column.name for column in version.table.columns]
        try:
            async for batch in insert_batches(session, plain, version.table, kept, self._reading):
                rows = pa.Table.from_arrays(batch.columns, names).select([column.name for column in columns])
                await copy_rows(session, f"pg_temp.{PROPOSED}", columns, rows)
        except SluiceError as refusal:
            if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                raise
            await self._forget()
            self._refusal = refusal

    def _in_place(self) -> frozenset[int]:
        """The tables that PostgreSQL reads itself, including the target if the statement names it again."""
        query = self.routed.query
        assert query is not None
        if self._refusal is not None:
            return tables_read(query)
        return tables_of_subqueries(query, (query.onConflict, query.returningList, conditions(query)))

    async def _loaded(self, version: TableVersion) -> Loaded:
        table = version.table
        if not self._needs_all(table):
            return nothing_loaded(table)
        if not is_small([version]):
            raise unsupported(
                f'INSERT with ON CONFLICT that needs all rows of table "{table.name}"',
                hint=f"PostgreSQL carries it out if the table has no more than {SMALL_ROWS} rows.",
            )
        return await asyncio.to_thread(load_all, self.session.gateway.data_path, version)

    def _needs_all(self, table: Table) -> bool:
        return table.oid in self._in_place() or bool(functions_of_users(self.routed.query))

    def _beside(self, table: Table, functions: frozenset[int]) -> AbstractAsyncContextManager[object]:
        in_place = self._in_place()
        if self._refusal is None and not in_place:
            return super()._beside(table, functions)
        beside = {oid: each for oid, each in self._reading.versions.items() if oid in in_place and oid != table.oid}
        if not beside:
            return guarding(self.session, table.oid, undone_in=table.oid)
        reading = replace(self._reading, versions=beside)
        refusal = self._refusal or unsupported("an INSERT with ON CONFLICT of this kind")
        computing = Computing(self.session, self.routed.query, reading, refusal, table.oid, made_by_users=True)
        return self._watched(computing, functions)

    @asynccontextmanager
    async def _watched(self, computing: Computing, functions: frozenset[int]) -> AsyncIterator[None]:
        async with computing, computing.watched(functions):
            yield

    async def _forget(self) -> None:
        if self._refusal is None:
            await self.session.backend.run(Statement(f"DROP TABLE pg_temp.{PROPOSED}"))

    def _without_rows(self, columns: Sequence[Column]) -> Statement | None:
        """None: a table of proposed rows is made and read."""

    async def _send(self, columns: Sequence[Column]) -> None:
        if self._refusal is not None:
            await super()._send(columns)
            return
        sql = f"{self._source(columns)} {self.analysis.taken_apart(upsert).conflict}"
        await send_own(self.session, sql, self.binding, self.analysis.parameter_types)

    def _source(self, columns: Sequence[Column]) -> str:
        if self._refusal is not None:
            return super()._source(columns)
        listed = ", ".join(quoted(column.name) for column in columns)
        head = self.analysis.taken_apart(upsert).head
        return f"{head} ({listed}) OVERRIDING SYSTEM VALUE SELECT {listed} FROM pg_temp.{PROPOSED}"
