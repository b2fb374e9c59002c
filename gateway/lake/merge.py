"""MERGE: the rows of the source into a table for PostgreSQL to read, the rows of the target that they match into the
shadow, and PostgreSQL merges them.

Which rows of the target match is Spark's to find: by the plan of a DELETE … USING with the same condition.
"""

from __future__ import annotations

import asyncio
from typing import Final

import numpy as np

from catalog.errors import SluiceError, unsupported
from catalog.model import TableVersion
from gateway.analysis import Analysis
from gateway.backend import Statement
from gateway.enlistment import analysed
from gateway.lake.changing import Changing
from gateway.lake.insert import target_oid
from gateway.lake.reading import read, runnable
from gateway.lake.rehearsal import (
    PROPOSED,
    Loaded,
    conclude,
    gone,
    load,
    nothing_loaded,
    places_of,
    rehearse,
    send_own,
    strength_of,
)
from gateway.lake.select import open_stream
from gateway.lake.shadow import copy_values
from gateway.lake.temporary import create_temporary
from gateway.portal import StatementPortal
from gateway.routing import route
from gateway.values import ResultColumn
from gateway.visibility import rules, used
from planner.change import plan_delete
from planner.nodes import parse, walk
from planner.routes import Route, main_query
from planner.statements import Merge, merge
from storage.write import replace_rows

_EMPTY: Final = Statement(f"TRUNCATE pg_temp.{PROPOSED}")


class MergePortal(StatementPortal):
    """MERGE INTO a lake table."""

    async def run(self) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        if any(node.type == "SUBLINK" for part in (query.mergeActionList, query.returningList) for node in walk(part)):
            raise unsupported("a subquery in an action of MERGE, or in its RETURNING,")
        parts, oid = merge(self.analysis.sql), target_oid(query)
        async with Changing(self, "MERGE", oid) as changing:
            await used(session, oid, self.analysis.mark, changing.mark)
            source = await self._analyse(f"{parts.common} SELECT * FROM {parts.source}")
            fields = source.columns or ()
            await create_temporary(session, PROPOSED, [field.name for field in fields], fields)
            while True:
                await self._propose(source)
                version, loaded = await self._matched(parts, oid)
                generated = (await rules(session, version.table)).generated
                columns = [column for column in version.table.columns if column.attnum not in generated]
                outcome = await rehearse(session, version.table, columns, loaded, lambda: self._send(parts))
                replaced = await gone(version.table, loaded, outcome.kept)
                path = session.gateway.data_path
                result = await asyncio.to_thread(replace_rows, path, version, replaced, [outcome.fresh])
                if await changing.claim(result, version, strength_of(version.table, loaded, outcome)):
                    break
                await session.backend.run(_EMPTY)
            await session.backend.run(Statement(f"DROP TABLE pg_temp.{PROPOSED}"))
            await conclude(changing, version, outcome, result)

    async def _analyse(self, sql: str) -> Analysis:
        """A query made of the statement's parts."""
        types = self.analysis.parameter_types
        try:
            return await analysed(self.session, sql, name="pg_sluice", parameter_types=types, sync=True)
        except SluiceError as error:
            error.fields.pop("P", None)
            raise

    async def _propose(self, source: Analysis) -> None:
        """The rows of the source, computed by Spark where it is of the lake, else by PostgreSQL."""
        session, binding = self.session, self.binding
        routed = await route(session, source)
        if routed.route is Route.SELECT:
            _, stream = await open_stream(session, source, routed, binding, self.limit_time)
            fields = source.columns or ()
            types = [ResultColumn(field.type_oid, field.typmod) for field in fields]
            try:
                async for batch in stream:
                    await copy_values(session, f"pg_temp.{PROPOSED}", [field.name for field in fields], types, batch)
            finally:
                await stream.close()
        elif routed.route is Route.RELAY:
            sql = f"INSERT INTO pg_temp.{PROPOSED} {source.sql}"
            await session.backend.run(
                Statement(sql, binding.parameters, self.analysis.parameter_types, binding.parameter_formats)
            )
        else:
            raise unsupported("MERGE from this source")

    async def _matched(self, parts: Merge, oid: int) -> tuple[TableVersion, Loaded]:
        """The rows of the target that the statement may change or delete."""
        session = self.session
        sql = f"{parts.common} DELETE FROM {parts.target} USING {parts.source} WHERE {parts.condition}"
        analysis = await self._analyse(f"DELETE FROM {parts.target}" if parts.by_source else sql)
        query = main_query(parse(analysis.tree))
        assert query is not None
        reading = await read(session, analysis, self.binding, self.routed.lake, explain=False)
        version = reading.versions[oid]
        plan = plan_delete(query, reading.context)
        stream = await session.gateway.engine.stream(runnable(plan.query, reading), session.tag)
        numbers = {file.path: number for number, file in enumerate(version.files)}
        found: list[np.ndarray] = []
        try:
            async for batch in stream:
                encoded = batch.column(0).dictionary_encode()
                renumbered = np.array([numbers[path] for path in encoded.dictionary.to_pylist()], np.int64)
                codes = encoded.indices.to_numpy(zero_copy_only=False)
                found.append(places_of(renumbered[codes], batch.column(1).to_numpy(zero_copy_only=False)))
        finally:
            await stream.close()
        if not found:
            return version, nothing_loaded(version.table)
        places = np.unique(np.concatenate(found))
        return version, await asyncio.to_thread(load, session.gateway.data_path, version.table, version.files, places)

    async def _send(self, parts: Merge) -> None:
        sql = (
            f"{parts.common} MERGE INTO {parts.target} USING pg_temp.{PROPOSED} AS {parts.alias}"
            f" ON {parts.condition} {parts.actions}"
        )
        send_own(self.session, sql, self.binding, self.analysis.parameter_types)
