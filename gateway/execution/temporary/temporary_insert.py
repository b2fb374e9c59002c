"""INSERT of a query over large lake tables into a temporary table: Spark's rows are inserted as they come.

They go into a temporary table of the gateway, and from there into the client's, by the client's statement with that
table in place of its query. So defaults, casts, constraints and the tag are PostgreSQL's. Queries that Spark cannot
compute are left to `gateway.execution.temporary.temporary_change`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.analysis import analyse
from gateway.backend.connection import BackendLostError
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.reading.plan_context import read
from gateway.execution.reading.query_rows import spark_rows
from gateway.execution.shadow.shadow import copy_values
from gateway.execution.shadow.temporary_tables import create_temporary
from gateway.execution.temporary.temporary_as import in_transaction
from gateway.statement.routing import route
from gateway.values import ResultColumn
from planner.plans.routes import Route, command
from planner.syntax.insert_source import inserted_query

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.backend.connection import Result
    from gateway.session.lake_cursor import RowStream
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

_NAME: Final = f"{OWN}_inserted"
_RELEASE: Final = (Statement(f"DROP TABLE pg_temp.{_NAME}"), TRIAL.release)


async def inserted(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Result | None:
    """PostgreSQL's answer to the INSERT; None, with nothing done, if it is no INSERT of Spark's rows alone."""
    query, read_only = routed.query, session.transaction.read_only
    assert query is not None
    plain = command(query) is Route.INSERT and query.onConflict is None and not query.returningList
    start = inserted_query(analysis.sql) if plain and not query.hasModifyingCTE else None
    if start is None or read_only.stands or read_only.is_default:
        return None
    source = await analyse(
        session.backend, analysis.sql[start:], name=OWN, parameter_types=analysis.parameter_types, sync=True
    )
    source_routed = await route(session, source)
    if source_routed.route is not Route.SELECT or not source.columns:
        return None
    reading = await read(session, source, binding, source_routed.lake)
    try:
        stream = await spark_rows(session, source_routed, reading, session.tag)
    except SluiceError as refusal:
        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return None
    try:
        async with in_transaction(session):
            return await _insert(session, f"{analysis.sql[:start]} TABLE pg_temp.{_NAME}", source, stream)
    finally:
        await stream.close()


async def _insert(session: SessionContext, sql: str, source: Analysis, stream: RowStream) -> Result | None:
    backend, columns = session.backend, source.columns or ()
    names = [f"c{number}" for number, _ in enumerate(columns, 1)]
    types = [ResultColumn(field.type_oid, field.typmod) for field in columns]
    await backend.run(TRIAL.begin)
    await create_temporary(session, f"pg_temp.{_NAME}", names, columns)
    try:
        await analyse(backend, sql, name=OWN, sync=True)
    except BackendLostError:
        raise
    except SluiceError:
        # A constant without a type would get the column's type in PostgreSQL; here it is text.
        await backend.run(*TRIAL.undo)
        return None
    async for batch in stream:
        await copy_values(session, f"pg_temp.{_NAME}", names, types, batch)
    try:
        [result, *_] = await backend.run(Statement(sql), *_RELEASE)
    except SluiceError as error:
        error.fields.pop("P", None)
        raise
    return result
