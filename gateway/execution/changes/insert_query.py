"""INSERT … SELECT from the lake: Spark computes, checks and writes the rows; otherwise PostgreSQL makes them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Table, TableVersion
from catalog.store import TableRules
from gateway.backend.own_statement import Statement
from gateway.execution.changes.locked_rows import with_subqueries_locked
from gateway.execution.changes.postgres_insert import Made, computed_insert, what_is_read
from gateway.execution.changes.row_changes import Changing
from gateway.execution.reading.failing_row import telling_row
from gateway.execution.reading.handed_rows import Placed, not_computed, placed
from gateway.execution.reading.handed_tables import with_temporary_tables
from gateway.execution.reading.plan_context import Reading, read, runnable
from gateway.execution.reading.select import RowSender
from gateway.execution.shadow.function_guard import relay_rows, send_statement
from gateway.session.cancel_listener import attended, attending
from gateway.session.offload import offloaded
from gateway.session.visibility import functions_of_rules, rules
from gateway.statement.portal import StatementPortal
from gateway.statement.query_placement import gives_up
from gateway.wire.messages.backend import CommandComplete
from planner.plans.change_plan import RETURNED_ROWS, plan_check, plan_insert
from planner.plans.constraint_checks import enforced
from planner.plans.placement import PLACEMENTS, Engine, Kind
from planner.spark.plan import Context, ReturningPlan, SequenceColumn, SparkQuery
from planner.tree.nodes import Node
from planner.tree.references import tables_read
from storage.parquet.arrow_types import arrow_schema
from storage.plan import RunnableInsert
from storage.spark.async_parquet_writer import WriterAside
from storage.spark.write import WriteResult

if TYPE_CHECKING:
    from gateway.session.response_spool import ResponseSpool
    from gateway.session.session_context import SessionContext
    from storage.spark.result_stream import ResultStream


def with_rules(context: Context, table: Table, kept: TableRules) -> Context:
    """The context for a plan that changes the table: generated columns are computed again."""
    generated = {attnum: kept.defaults[attnum] for attnum in kept.generated}
    return replace(
        context, tables={**context.tables, table.oid: table}, generated={**context.generated, table.oid: generated}
    )


def size_of(kept: TableRules) -> int:
    """About how many bytes of trees a plan reads for these rules."""
    generated = (kept.defaults[attnum] for attnum in kept.generated)
    return sum(map(len, generated)) + sum(len(check.expression) for check in kept.checks)


async def check_conditions(
    session: SessionContext, context: Context, table: Table, kept: TableRules
) -> Mapping[str, str]:
    """Each CHECK of the table as a condition in Spark's SQL."""

    def plan() -> Mapping[str, str]:
        return {check.name: plan_check(check.expression, table, context) for check in kept.checks}

    return await offloaded(session, size_of(kept), plan)


class InsertQueryPortal(StatementPortal):
    """INSERT of rows that Spark computes from the lake."""

    async def run(self) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        target = int(query.rtable[int(query.resultRelation) - 1].relid)
        unread = None if target in tables_read(query) else target
        async with Changing(self, "INSERT", target) as changing:
            reading: Reading | None = None
            while reading is None:
                fresh = await read(session, self.analysis, self.binding, self.routed.lake, unread=unread)
                reading = await with_subqueries_locked(session, query, fresh)
            version = reading.versions[target]
            kept = await rules(session, version.table)
            if await self._computed_first(changing, version, reading, kept):
                return
            try:
                result, returning = await insert_rows(session, query, version, kept, reading)
            except SluiceError as refusal:
                if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
                    raise
                made = await self._make(version, reading, refusal, functions_of_rules(kept))
                await self._conclude(changing, version, made)
                return
            await changing.wrote(result, version)
            if self.columns is not None and returning is not None:
                self.announce()
                sender = RowSender(session, self.columns, reading)
                await self._return(sender, returning, TableVersion(version.table, 0, result.data_files), reading)
            tag = f"INSERT 0 {result.row_count}"
            await changing.finish(tag)
        session.client.send(CommandComplete(tag))

    async def _computed_first(
        self, changing: Changing, version: TableVersion, reading: Reading, kept: TableRules
    ) -> bool:
        """Have PostgreSQL make the rows if they are placed there. False if they are not, or if it cannot."""
        session, query = self.session, self.routed.query
        assert query is not None
        where = await place_insert(session, query, version, reading, kept)
        if not where.is_with_postgres:
            return False
        try:
            made = await self._make(version, reading, not_computed(), frozenset(), where)
        except SluiceError as error:
            if gives_up(error, reading.timeout):
                return False
            raise
        await self._conclude(changing, version, made)
        return True

    async def _make(
        self,
        version: TableVersion,
        reading: Reading,
        refusal: SluiceError,
        functions: frozenset[int],
        where: Placed | None = None,
    ) -> Made:
        """Have PostgreSQL make the rows."""
        session, query = self.session, self.routed.query
        assert query is not None

        async def carry_out(kept: ResponseSpool) -> str:
            await send_statement(session, self.binding)
            return await relay_rows(session, kept)

        return await computed_insert(session, query, version.table, reading, refusal, carry_out, functions, where)

    async def _conclude(self, changing: Changing, version: TableVersion, made: Made) -> None:
        """Stage the rows that PostgreSQL has made as new ones of the table."""
        await changing.wrote(made.result, version)
        if self.binding.raw_query is None:
            self.announce()
        await made.answers.give(self.session.client)
        await changing.finish(made.tag)
        self.session.client.send(CommandComplete(made.tag))

    async def _return(
        self, sender: RowSender, returning: ReturningPlan, written: TableVersion, reading: Reading
    ) -> None:
        """RETURNING reads the written files before they are published; its subqueries do not see them."""
        query = runnable(returning.query, reading, {RETURNED_ROWS: written})
        stream = await self.session.gateway.engine.stream(query, self.session.tag)
        try:
            async for batch in stream:
                await sender.send(batch)
        finally:
            await stream.close()


async def place_insert(
    session: SessionContext, query: Node, version: TableVersion, reading: Reading, kept: TableRules
) -> Placed:
    """The engine that begins with an INSERT … SELECT."""
    where = await placed(session, query, what_is_read(query, reading))
    calls = functions_of_rules(kept, defaults=True) or version.table.computed_keys or version.table.exclusions
    if where.is_with_postgres and calls:
        return Placed(PLACEMENTS[Engine.AUTO, Kind.ACTING])
    return where


async def insert_rows(
    session: SessionContext, query: Node, version: TableVersion, kept: TableRules, reading: Reading
) -> tuple[WriteResult, ReturningPlan | None]:
    """Write the rows of an analysed INSERT … SELECT into the table, after checking all of its rules."""
    table = version.table
    reading = await with_temporary_tables(session, query, reading)
    context = with_rules(reading.context, table, kept)
    plan = await offloaded(session, reading.size + size_of(kept), plan_insert, query, context)
    numbered = [sequence.attnum for sequence in plan.sequences]
    if numbered and kept.checks:
        raise unsupported("a sequence in INSERT … SELECT from the lake into a table with CHECK constraints")
    checks = await check_conditions(session, context, table, kept)
    checked = enforced(plan.query, table, checks, numbered=numbered, violations=plan.violations)
    if plan.sequences:
        return await _numbered(session, table, checked, plan.sequences, reading), plan.returning
    async with telling_row(session, query, plan.query, table, checks, reading), attending(session):
        insert = RunnableInsert(runnable(checked, reading), table, session.transaction.hot_rows_max)
        result = await session.gateway.engine.insert(insert, session.tag)
    return result, plan.returning


async def _numbered(
    session: SessionContext, table: Table, query: SparkQuery, sequences: Sequence[SequenceColumn], reading: Reading
) -> WriteResult:
    """Write rows with values of sequences; only PostgreSQL can give these."""
    async with WriterAside(session.gateway.data_path, table, session.transaction.hot_rows_max) as writer:
        stream = await session.gateway.engine.stream(runnable(query, reading), session.tag)
        batches = attended(session, stream, leaves_window=True)
        async for batch in _numbered_batches(session, table, stream, batches, sequences):
            await writer.write(batch)
        return await writer.finish()


async def insert_batches(
    session: SessionContext, query: Node, table: Table, kept: TableRules, reading: Reading
) -> AsyncIterator[pa.RecordBatch]:
    """The rows that an analysed INSERT … SELECT proposes, in lake form, unchecked: its tree has no withCheckOptions."""
    plan = await offloaded(session, reading.size, plan_insert, query, with_rules(reading.context, table, kept))
    assert not plan.violations, "rows that PostgreSQL is to check have been checked"
    stream = await session.gateway.engine.stream(runnable(plan.query, reading), session.tag)
    async for batch in _numbered_batches(session, table, stream, stream, plan.sequences):
        yield batch


async def _numbered_batches(
    session: SessionContext,
    table: Table,
    stream: ResultStream,
    batches: AsyncIterable[pa.RecordBatch],
    sequences: Sequence[SequenceColumn],
) -> AsyncIterator[pa.RecordBatch]:
    """Number the `batches` of a stream, in the gateway; the stream is closed in the end."""
    schema = arrow_schema(table)
    places = {sequence.attnum: sequence.sequence_oid for sequence in sequences}
    try:
        async for batch in batches:
            arrays = list(batch.columns)
            for place, column in enumerate(table.columns):
                if column.attnum in places:
                    sequence = await session.transaction.deferred.present_sequence(places[column.attnum])
                    values = await next_values(session, sequence, batch.num_rows)
                    arrays[place] = pa.array(values).cast(schema.field(place).type)
            yield pa.RecordBatch.from_arrays(arrays, names=[field.name for field in schema])
    finally:
        await stream.close()


async def next_values(session: SessionContext, sequence_oid: int, count: int) -> np.ndarray:
    """The next `count` values of a sequence, as 64-bit integers."""
    [result] = await session.backend.run(
        Statement(
            "SELECT pg_catalog.nextval($1::bigint::pg_catalog.oid::pg_catalog.regclass)"
            " FROM pg_catalog.generate_series(1, $2::bigint)",
            (str(sequence_oid), str(count)),
            result_format=1,
            bodies_only=True,
        )
    )
    # A body is a count of columns (2 bytes), a length (4) and the value (8), all big-endian.
    rows = np.frombuffer(b"".join(result.bodies), np.dtype([("columns", ">i2"), ("length", ">i4"), ("value", ">i8")]))
    return rows["value"].astype(np.int64)
