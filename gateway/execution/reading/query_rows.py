"""The rows of a query in lake form, for further processing: from Spark, the table's files or PostgreSQL.

PostgreSQL's rows (`gateway.execution.reading.postgres_query`) are kept, in a file if many.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.execution.reading.handed_rows import Placed, not_computed, placed
from gateway.execution.reading.handed_tables import with_temporary_tables
from gateway.execution.reading.plan_context import Reading, planned, runnable
from gateway.execution.reading.postgres_query import Computing, Locked
from gateway.execution.reading.rows_to_write import taking
from gateway.execution.reading.stored_rows import stored_rows
from gateway.session.cancel_listener import attending
from gateway.session.lake_cursor import RowStream
from gateway.statement.query_placement import gives_up
from planner.plans.computable import is_computable
from planner.plans.select import plan_select
from planner.spark.plan import Context, SparkQuery
from planner.translate.user_types import UserTypes
from storage.spool.spill import Spill

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.execution.reading.stored_rows import StoredRead
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

# PostgreSQL's error for a row with a field whose type has no binary form.
_NO_BINARY: Final = "no binary output function available"


class _Begun:
    """A stream whose first batch was taken already."""

    def __init__(self, first: pa.RecordBatch | None, rest: RowStream) -> None:
        self.schema = rest.schema
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        first, self._first = self._first, None
        if first is not None:
            yield first
        async for batch in self._rest:
            yield batch

    async def close(self) -> None:
        self._first = None
        await self._rest.close()


class _Kept:
    """Batches that are complete; read in threads, because they may be in a file."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.schema = reader.schema
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        while (batch := await asyncio.to_thread(next, self._reader, None)) is not None:
            yield batch

    async def close(self) -> None:
        self._reader.close()


async def query_rows(  # noqa: PLR0917
    session: SessionContext,
    analysis: Analysis,
    routed: Routed,
    binding: Binding,
    reading: Reading,
    tag: str,
    limit_time: Callable[[float | None], None] = lambda _: None,
    plan: Callable[[Any, Context], SparkQuery] = plan_select,
    *,
    leaves_window: bool = False,
    only_lake_types: bool = True,
) -> RowStream:
    """The rows of a SELECT. `tag` is the engine's name for it; `plan` may add columns, which only Spark returns. For
    `leaves_window` see `attending`, for columns of other than `only_lake_types`
    `gateway.execution.reading.rows_to_write`.
    """
    assert routed.query is not None
    if plan is plan_select:  # only Spark returns rows with further columns
        where = await placed(session, routed.query, reading)
        if where.stored is not None:
            return await file_rows(session, where.stored, reading, tag, limit_time, leaves_window=leaves_window)
        if where.is_with_postgres:
            try:
                return await computed_rows(
                    session,
                    analysis,
                    routed,
                    binding,
                    reading,
                    not_computed(),
                    only_lake_types=only_lake_types,
                    where=where,
                )
            except SluiceError as error:
                if not gives_up(error, reading.timeout):
                    raise
    try:
        return await spark_rows(session, routed, reading, tag, limit_time, plan, leaves_window=leaves_window)
    except SluiceError as refusal:
        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return await computed_rows(
            session, analysis, routed, binding, reading, refusal, only_lake_types=only_lake_types
        )


async def file_rows(
    session: SessionContext,
    stored: StoredRead,
    reading: Reading,
    tag: str,
    limit_time: Callable[[float | None], None] = lambda _: None,
    *,
    leaves_window: bool = False,
) -> RowStream:
    """`query_rows` for a query that only reads columns."""
    stream = await stored_rows(session, stored, reading, tag, limit_time)
    return await _begun(session, stream, leaves_window=leaves_window)


async def spark_rows(  # noqa: PLR0917
    session: SessionContext,
    routed: Routed,
    reading: Reading,
    tag: str,
    limit_time: Callable[[float | None], None] = lambda _: None,
    plan: Callable[[Any, Context], SparkQuery] = plan_select,
    *,
    leaves_window: bool = False,
) -> RowStream:
    """`query_rows` for a query that Spark can compute; otherwise raises its refusal."""
    limit_time(reading.timeout)
    reading = await with_temporary_tables(session, routed.query, reading)
    query = await planned(session, reading, plan, routed.query)
    stream = await session.gateway.engine.stream(runnable(query, reading), tag)
    return await _begun(session, stream, leaves_window=leaves_window)


async def _begun(session: SessionContext, stream: RowStream, *, leaves_window: bool) -> RowStream:
    """The stream once its first batch is there: what it refuses, it has refused by then."""
    try:
        async with attending(session, leaves_window=leaves_window):
            first = await anext(aiter(stream), None)
    except BaseException:
        await stream.close()
        raise
    return _Begun(first, stream)


async def check_rows(session: SessionContext, routed: Routed, reading: Reading) -> None:
    """Raise 0A000 if `query_rows` is known to refuse."""
    try:
        runnable(await planned(session, reading, plan_select, routed.query), reading)
    except SluiceError as refusal:
        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        if not is_computable(routed.query, session.gateway.builtins, made_by_users=True):
            raise


async def computed_rows(  # noqa: PLR0917
    session: SessionContext,
    analysis: Analysis,
    routed: Routed,
    binding: Binding,
    reading: Reading,
    refusal: SluiceError,
    *,
    only_lake_types: bool = True,
    locked: Locked | None = None,
    where: Placed | None = None,
) -> RowStream:
    """The rows of a query that PostgreSQL computes, or raise `refusal`. `locked` if it locks rows; `where`: see
    `Computing`.
    """
    async with session.transaction.deferred.opened():
        enumerations = UserTypes.of(reading.context.tables.values()).labels.keys()
        taken = await taking(
            session, analysis.columns or (), refusal, enumerations=enumerations, only_lake_types=only_lake_types
        )
        spill = Spill(taken.schema)

        def keep(bodies: list[bytes]) -> None:
            for batch in taken.batches(bodies):
                spill.write(batch)

        async def take(bodies: list[bytes]) -> None:
            await asyncio.to_thread(keep, bodies)

        statement = Statement(
            taken.sql(analysis.sql),
            binding.parameters,
            analysis.parameter_types,
            binding.parameter_formats,
            result_format=1,
            bodies_only=True,
            take=take,
        )
        async with Computing(
            session, routed.query, reading, refusal, made_by_users=True, locked=locked, placed=where
        ) as computing:
            try:
                async with computing.watched():
                    [result] = await session.backend.run(statement)
            except SluiceError as error:
                error.fields.pop("P", None)
                if error.message.startswith(_NO_BINARY):
                    raise refusal from error
                raise
    await take(result.bodies)
    return _Kept(await asyncio.to_thread(spill.reader))
