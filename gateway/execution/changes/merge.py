"""MERGE: PostgreSQL merges source rows from a table into matching target rows in the shadow.

Spark finds the matching target rows, by the plan of a DELETE … USING with the same condition. If it cannot, or if the
target is read in other ways too, all rows of a small target are copied. Further tables that PostgreSQL reads, in
subqueries or in a source that it must read itself, are copied as for a PostgreSQL query
(`gateway.execution.reading.postgres_query`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.analysis import Analysis
from gateway.backend.arrays import number_array
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.changes.insert import target_oid
from gateway.execution.changes.row_changes import Changing
from gateway.execution.changes.shadow_execution import (
    PROPOSED,
    Outcome,
    conclude,
    gone,
    must_note,
    paired,
    rehearse,
    send_own,
    strength_of,
)
from gateway.execution.reading.plan_context import read, runnable
from gateway.execution.reading.postgres_query import SMALL_ROWS, Computing, is_small
from gateway.execution.reading.query_rows import query_rows
from gateway.execution.shadow.function_guard import guarding_functions, send_statement
from gateway.execution.shadow.loaded_rows import Loaded, load, load_all, nothing_loaded, places_in
from gateway.execution.shadow.shadow import copy_values
from gateway.execution.shadow.temporary_tables import create_temporary
from gateway.session.cancel_listener import attended
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import functions_of_rules, latest, left_by_parts, rules
from gateway.statement.portal import StatementPortal
from gateway.statement.routed import Routed
from gateway.statement.routing import route
from gateway.values import ResultColumn
from planner.plans.change_plan import plan_delete
from planner.plans.computable import functions_of_users
from planner.plans.merge import is_read_in_place, is_repeatable, tables_in_place
from planner.plans.routes import Route, main_query
from planner.syntax.statements import Merge, merge
from planner.translate.row_security import with_conditions_of
from planner.tree.nodes import parse
from planner.tree.references import functions, relations
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions
from storage.spark.write import replace_rows

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.execution.reading.plan_context import Reading

# CmdType of nodes.h.
_UPDATE, _DELETE = 2, 4
# Whether any of these types is an array.
_ARRAYS: Final = (
    "SELECT pg_catalog.bool_or(typcategory OPERATOR(pg_catalog.=) 'A') FROM pg_catalog.pg_type"
    " WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])"
)
_EMPTY: Final = Statement(f"TRUNCATE pg_temp.{PROPOSED}")


class MergePortal(StatementPortal):
    """MERGE INTO a lake table."""

    _stands_aside = True

    async def run(self) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        parts, oid = self.analysis.taken_apart(merge), target_oid(query)
        kinds = {int(action.commandType) for action in query.mergeActionList}
        updates, deletes = _UPDATE in kinds, _DELETE in kinds
        async with Changing(self, "MERGE", oid) as changing:
            source = await self._source(parts)
            in_place = tables_in_place(query, source=source is None)
            # The reads of user-defined functions are not known beforehand.
            everything = oid in in_place or bool(functions_of_users(query))
            if source is not None:
                fields = source[0].columns or ()
                self._stands_aside = self._means_the_same_outside(source[1])
                async with self._aside():
                    await create_temporary(session, PROPOSED, [field.name for field in fields], fields)
            while True:
                reading = await read(session, self.analysis, self.binding, self.routed.lake)
                self.limit_time(reading.timeout)
                version = reading.versions[oid]
                if source is not None:
                    await self._propose(*source, reading)
                loaded = await self._matched(parts, reading, everything=everything)
                noting = updates and await must_note(session, version.table, deletes=deletes)
                # A key does not tell a changed row from one that was deleted and inserted again.
                noting = noting or (updates and deletes and bool(version.table.foreign_keys))
                given = parts if source is not None else None
                outcome = await self._merged(given, reading, loaded, in_place, noting=noting)
                replaced = await gone(version.table, loaded, outcome.kept)
                left, path = await left_by_parts(session, version), session.gateway.data_path
                if await asyncio.to_thread(_any_taken, path, version, left, replaced):
                    raise _affected_twice()
                version = left
                hot_rows = session.transaction.hot_rows_max
                result = await asyncio.to_thread(replace_rows, path, version, replaced, [outcome.fresh], hot_rows)
                sources = await asyncio.to_thread(paired, version.table, loaded, outcome)
                strength = strength_of(version.table, loaded, outcome)
                if await changing.claim(result, version, strength, sources=sources):
                    break
                if source is not None:
                    async with self._aside():
                        await session.backend.run(_EMPTY)
            if source is not None:
                async with self._aside():
                    await session.backend.run(Statement(f"DROP TABLE pg_temp.{PROPOSED}"))
            await conclude(self, changing, version, outcome, result, sources=sources, updates=updates, deletes=deletes)

    def _means_the_same_outside(self, source: Routed) -> bool:
        """Whether the source's rows, if they are PostgreSQL's, are the same outside of a window."""
        query, builtins = source.query, self.session.gateway.builtins
        if source.route is not Route.RELAY or query is None:
            return True
        called = (builtins.functions.get(oid) for oid in functions(query))
        return not relations(query) and all(each is not None and each.volatility == "i" for each in called)

    @asynccontextmanager
    async def _aside(self) -> AsyncIterator[None]:
        """Surrounds work with the table of proposed rows, which is outside of windows, so that the statement's locks
        can be too.
        """
        deferred = self.session.transaction.deferred
        if not self._stands_aside:
            deferred.need_window()
            yield
            return
        async with deferred.suspended():
            yield

    async def _source(self, parts: Merge) -> tuple[Analysis, Routed] | None:
        """The query of the source's rows; None if PostgreSQL must read the source itself."""
        query = self.routed.query
        assert query is not None
        if parts.alias is None or is_read_in_place(query):
            return None
        source = await self._analyse(f"{parts.common} SELECT * FROM {parts.source}")
        names = [field.name for field in source.columns or ()]
        if not names or len(set(names)) < len(names):
            return None
        made = [field.type_oid for field in source.columns or () if field.type_oid >= FIRST_USER_OID]
        if made:
            [arrays] = await self.session.backend.run(Statement(_ARRAYS, (number_array(made),)))
            if arrays.rows[0][0] == b"t":
                return None
        routed = await route(self.session, source)
        for oid in routed.lake:  # arrays may have several dimensions
            carried = {each.carried.oid for each in (await latest(self.session, oid)).table.columns if each.carried}
            if carried & {field.type_oid for field in source.columns or ()}:
                return None
        return (source, routed) if routed.route in (Route.SELECT, Route.RELAY) else None

    async def _analyse(self, sql: str) -> Analysis:
        """Analyse a query made of the statement's parts."""
        types = self.analysis.parameter_types
        try:
            return await analysed(self.session, sql, name=OWN, parameter_types=types, sync=True)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise

    async def _propose(self, source: Analysis, routed: Routed, reading: Reading) -> None:
        """The rows of the source, computed by Spark if they come from the lake, else by PostgreSQL."""
        session, binding = self.session, self.binding
        if routed.route is Route.RELAY:
            sql = f"INSERT INTO pg_temp.{PROPOSED} {source.sql}"
            proposing = Statement(sql, binding.parameters, self.analysis.parameter_types, binding.parameter_formats)
            async with self._aside():
                await session.backend.run(proposing)
            return
        own = replace(reading, versions={oid: reading.versions[oid] for oid in routed.lake})
        stream = await query_rows(session, source, routed, binding, own, session.tag)
        fields = source.columns or ()
        types = [ResultColumn(field.type_oid, field.typmod) for field in fields]
        try:
            async for batch in attended(session, stream):
                async with self._aside():
                    await copy_values(session, f"pg_temp.{PROPOSED}", [field.name for field in fields], types, batch)
        finally:
            await stream.close()

    async def _matched(self, parts: Merge, reading: Reading, *, everything: bool) -> Loaded:
        """The rows of the target that the statement may change or delete."""
        query = self.routed.query
        assert query is not None
        version = reading.versions[target_oid(query)]
        refusal = unsupported(f'MERGE that needs all rows of table "{version.table.name}"')
        if not everything and is_repeatable(query, self.session.gateway.builtins):
            try:
                return await self._found(parts, reading)
            except SluiceError as error:
                if error.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                    raise
                refusal = error
        if not is_small([version]):
            refusal.fields.setdefault("H", f"PostgreSQL merges if the table has no more than {SMALL_ROWS} rows.")
            raise refusal
        return await asyncio.to_thread(load_all, self.session.gateway.data_path, version)

    async def _found(self, parts: Merge, reading: Reading) -> Loaded:
        """The target rows that Spark finds."""
        session = self.session
        sql = f"{parts.common} DELETE FROM {parts.target} USING {parts.source} WHERE {parts.condition}"
        analysis = await self._analyse(f"DELETE FROM {parts.target}" if parts.by_source else sql)
        query = main_query(await offloaded(session, analysis.tree.size, parse, analysis.tree))
        assert query is not None
        assert self.routed.query is not None
        query = with_conditions_of(query, self.routed.query)  # MERGE has other policy conditions than DELETE
        version = reading.versions[target_oid(query)]
        plan = await offloaded(session, analysis.tree.size + reading.size, plan_delete, query, reading.context)
        stream = await session.gateway.engine.stream(runnable(plan.query, reading), session.tag)
        numbers = {file.path: number for number, file in enumerate(version.files)}
        try:
            found = [places_in(batch, 0, numbers) async for batch in attended(session, stream)]
        finally:
            await stream.close()
        if not found:
            return nothing_loaded(version.table)
        places = np.unique(np.concatenate(found))
        return await asyncio.to_thread(load, session.gateway.data_path, version.table, version.files, places)

    async def _merged(
        self, parts: Merge | None, reading: Reading, loaded: Loaded, in_place: Collection[int], *, noting: bool
    ) -> Outcome:
        """PostgreSQL merges: the proposed rows by the statement's `parts`, or the unchanged statement."""
        session, query = self.session, self.routed.query
        assert query is not None
        target = target_oid(query)
        table = reading.versions[target].table
        kept = await rules(session, table)
        columns = [column for column in table.columns if column.attnum not in kept.generated]
        beside = {oid: each for oid, each in reading.versions.items() if oid in in_place and oid != target}

        async def send() -> None:
            if parts is None:
                await send_statement(session, self.binding)
                return
            sql = (
                f"{parts.common} MERGE INTO {parts.target} USING pg_temp.{PROPOSED} AS {parts.alias}"
                f" ON {parts.condition} {parts.actions}"
            )
            await send_own(session, sql, self.binding, self.analysis.parameter_types)

        functions = functions_of_rules(kept)
        async with AsyncExitStack() as stack:
            if in_place or parts is None:
                refusal = unsupported("a MERGE of this kind")
                computing = Computing(
                    session, query, replace(reading, versions=beside), refusal, target, made_by_users=True
                )
                await stack.enter_async_context(computing)
                await stack.enter_async_context(computing.watched(functions))
            else:
                await stack.enter_async_context(guarding_functions(session, functions, table, filled=True))
            return await rehearse(session, table, columns, loaded, send, noting=noting)


def _any_taken(
    data_path: str, version: TableVersion, left: TableVersion, replaced: Mapping[str, npt.NDArray[np.int64]]
) -> bool:
    """Whether one of these rows of a version has been deleted since. Blocking."""
    files = LakeFiles(data_path)
    return any(
        after.delete_file is not None
        and after.delete_file != before.delete_file
        and after.path in replaced
        and np.isin(replaced[after.path], deleted_positions(files, version.table.path, after.delete_file)).any()
        for before, after in zip(version.files, left.files, strict=True)
    )


def _affected_twice() -> SluiceError:
    return SluiceError(
        SqlState.CARDINALITY_VIOLATION,
        "MERGE command cannot affect row a second time",
        hint="Ensure that not more than one source row matches any one target row.",
    )
