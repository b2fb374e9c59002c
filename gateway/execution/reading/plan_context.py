"""What a plan depends on besides the statement: the session's settings and clock, the parameters, the tables.

One round trip asks the session's backend for all of it, together with an EXPLAIN of the statement. Parse checks no
privileges and folds no constants, EXPLAIN does both (42501, 22012).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.model import Sidecar, Table, TableVersion
from gateway.backend.analysis import SchemaMark
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.locks.table_locks import ACCESS_SHARE, lock_tables
from gateway.execution.reading.statement_rights import missing, refuse_missing
from gateway.session import as_of, session_timeouts
from gateway.session.cancel_listener import check
from gateway.session.newest_versions import NewestVersions
from gateway.session.offload import offloaded
from gateway.session.visibility import uncommitted, use, versions
from gateway.statement import query_placement
from gateway.statement.portal import Binding
from gateway.values import OutputSettings
from planner.functions.local_times import spark_zone
from planner.spark.plan import Context, Scan, SessionValues, SparkQuery
from planner.translate.user_types import UserTypes
from storage.plan import BoundScan, RunnableQuery

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

_P = ParamSpec("_P")
_T = TypeVar("_T")

_VALUES: Final = Statement(
    "SELECT (extract(epoch FROM pg_catalog.now()) OPERATOR(pg_catalog.*) 1000000)::bigint,"
    " (extract(epoch FROM pg_catalog.statement_timestamp()) OPERATOR(pg_catalog.*) 1000000)::bigint,"
    " pg_sluice.backend_setting('TimeZone'), current_user, session_user,"
    " pg_catalog.current_database(), pg_catalog.current_schema(),"
    " pg_sluice.backend_setting('DateStyle'), pg_sluice.backend_setting('IntervalStyle'),"
    " pg_sluice.backend_setting('extra_float_digits')::int,"
    " pg_sluice.backend_setting('bytea_output'),"
    f" {session_timeouts.STATEMENT_TIMEOUT},"
    f" {session_timeouts.ASKED}, {as_of.UNDERSTOOD}, {query_placement.ASKED}, pg_sluice.schema_mark()"
)

_DOMAIN_NAMES: Final = (
    "SELECT d::pg_catalog.int8, pg_catalog.format_type(d, NULL) FROM pg_catalog.unnest($1::pg_catalog.oid[]) d"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """`context` is the planner's; `versions` are the tables at one snapshot; `timeout` is in seconds, None for none.

    `size` is that of the statement's tree and parameters, in characters. `sidecars` are those of the tables' indexes,
    by index and data file. `placing` is the answer for `gateway.statement.query_placement`. `past`: `versions` are of
    an earlier snapshot. `handed` are rows of tables outside of the lake (`gateway.execution.reading.handed_tables`).
    """

    context: Context
    versions: Mapping[int, TableVersion]
    output: OutputSettings
    timeout: float | None
    size: int = 0
    sidecars: Mapping[tuple[int, int], Sidecar] = field(default_factory=dict)
    placing: str = ""
    past: bool = False
    handed: Mapping[int, pa.Table] = field(default_factory=dict)


async def session_values(session: SessionContext) -> tuple[SessionValues, float | None]:
    """The session's clock and settings only, and its statement_timeout."""
    values, timeout, *_ = await session_values_and(session)
    return values, timeout


async def session_values_and(
    session: SessionContext, *others: Statement
) -> tuple[SessionValues, float | None, SchemaMark, list[Result]]:
    """`session_values`, the end of the schema log, and the answers to other questions in the same round trip."""
    [result, *results] = await session.backend.run(_VALUES, *others)
    values, timeout, *_ = await _session_values(session, result)
    return values, timeout, SchemaMark.of(result.rows[0][-1]), results


async def read(
    session: SessionContext,
    analysis: Analysis,
    binding: Binding,
    lake: Sequence[int],
    *,
    explain: bool = True,
    scans: bool = True,
    unread: int | None = None,
    locked: int | None = None,
) -> Reading:
    """Collect what a plan of `analysis` needs; `lake` are its lake tables, of which the statement has `locked` one.

    If it `scans` them, an unpopulated materialized view raises 55000. `unread`: see `versions`.
    """
    asked = asking(session, analysis, binding, lake, explain=explain, locked=locked)
    try:
        results = await session.backend.run(*asked.statements)
    except BackendLostError:
        raise
    except SluiceError as error:
        raise await session.transaction.enlistment.cause(error) from error
    return await answered(session, analysis, binding, asked, results, scans=scans, unread=unread)


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions of `read` about these lake tables. `rights`: the place of the one about the client's rights;
    `told`: of the one about versions. `own`: the last one is about the transaction's changes.
    """

    lake: Sequence[int]
    statements: Sequence[Statement]
    rights: int
    newest: NewestVersions | None
    told: int
    own: bool


NOTHING_ASKED: Final = Asked((), (), 0, None, 0, False)


def asking(
    session: SessionContext,
    analysis: Analysis,
    binding: Binding,
    lake: Sequence[int],
    *,
    explain: bool = True,
    locked: int | None = None,
    begins: bool = False,
) -> Asked:
    """What `read` asks the backend, in its transaction, or in the one that `begins` in the same round trip."""
    is_open = session.transaction.open or begins
    statements, rights = [_VALUES], 0
    if explain:
        explaining = Statement(
            f"EXPLAIN (COSTS OFF) {analysis.sql}",
            binding.parameters,
            analysis.parameter_types,
            binding.parameter_formats,
        )
        # No schema change must wait for this transaction: EXPLAIN's locks are released.
        statements += [TRIAL.begin, explaining, *TRIAL.undo] if is_open else [explaining]
        # The last one, because EXPLAIN raises the errors in PostgreSQL's words.
        rights = len(statements)
        statements.append(missing(analysis.demands))
    to_lock = [oid for oid in lake if oid != locked]
    if is_open and to_lock:
        statements.append(lock_tables(to_lock, ACCESS_SHARE))
    changed = session.transaction.open and not session.transaction.fresh
    newest, told = NewestVersions.of(session, lake, told=changed), len(statements)
    if newest is not None:
        statements.append(newest.statement)
    if changed:
        statements.append(uncommitted(session, lake))
    return Asked(lake, statements, rights, newest, told, changed)


async def answered(
    session: SessionContext,
    analysis: Analysis,
    binding: Binding,
    asked: Asked,
    results: Sequence[Result],
    *,
    scans: bool = True,
    unread: int | None = None,
) -> Reading:
    """`read`, by the answers to what it asks."""
    check(session)
    lake, newest = asked.lake, asked.newest
    if asked.rights:
        refuse_missing(results[asked.rights])
    values, timeout, past, placed = await _session_values(session, results[0])
    own = session.transaction.own.read(results[-1].rows) if asked.own else None
    if past:
        seen = await as_of.past_versions(session, analysis, lake, past, own)
    else:
        await session.reading.choose(None)
        if newest is not None:
            newest.take(results[asked.told], own or ())
        seen = await versions(session, lake, own, unread=unread, newest=newest)
        await use(session, lake, seen, analysis.mark, SchemaMark.of(results[0].rows[0][-1]), analysis.views)
    if scans:
        _check_populated(seen.values())
    values = await _with_settings(session, values, sorted(analysis.asked_settings))
    tables = {oid: version.table for oid, version in seen.items()}
    context = Context(
        session.gateway.builtins,
        tables,
        values,
        binding.canonical,
        domain_names=await _domain_names(session, tables.values()),
    )
    sidecars = await _sidecars(session, seen.values())
    size = analysis.tree.size + sum(len(parameter.text or "") for parameter in binding.canonical)
    return Reading(context, seen, output_settings(values), timeout, size, sidecars, placed, bool(past))


def _check_populated(versions: Iterable[TableVersion]) -> None:
    for version in versions:
        if not version.table.populated:
            raise SluiceError(
                SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,
                f'materialized view "{version.table.name}" has not been populated',
                hint="Use the REFRESH MATERIALIZED VIEW command.",
            )


async def _sidecars(session: SessionContext, versions: Iterable[TableVersion]) -> dict[tuple[int, int], Sidecar]:
    """The sidecars of the tables' indexes, by index and data file."""
    found: dict[tuple[int, int], Sidecar] = {}
    for version in versions:
        used = [index for index in version.table.indexes if index.is_used]
        if used:
            found.update(await session.gateway.store.sidecars.of(version, used))
    return found


async def planned(
    session: SessionContext,
    reading: Reading,
    plan: Callable[Concatenate[Any, Context, _P], _T],
    query: Node | None,
    *arguments: _P.args,
    **named: _P.kwargs,
) -> _T:
    """The plan that `plan` makes of the query, off the event loop if the statement is large."""
    return await offloaded(session, reading.size, plan, query, reading.context, *arguments, **named)


async def _with_settings(session: SessionContext, values: SessionValues, names: Sequence[str]) -> SessionValues:
    """The values with the session's settings of these names."""
    if not names:
        return values
    parameters = ", ".join(f"pg_sluice.backend_setting(${number}, true)" for number, _ in enumerate(names, 1))
    [result] = await session.backend.run(Statement(f"SELECT {parameters}", tuple(names)))
    found = zip(names, result.rows[0], strict=True)
    return replace(values, settings={name: None if value is None else value.decode() for name, value in found})


async def _domain_names(session: SessionContext, tables: Iterable[Table]) -> dict[int, str]:
    """The names of domains as the session's search path shows them, for errors about their constraints."""
    ruled = {oid for oid, domain in UserTypes.of(tables).domains.items() if domain.rules}
    if not ruled:
        return {}
    [result] = await session.backend.run(Statement(_DOMAIN_NAMES, (number_array(ruled),)))
    return {int(oid or 0): (name or b"").decode() for oid, name in result.rows}


def output_settings(values: SessionValues) -> OutputSettings:
    """The settings for the encoding of results."""
    return OutputSettings(
        timezone=values.time_zone,
        date_style=values.date_style,
        interval_style=values.interval_style,
        extra_float_digits=values.extra_float_digits,
        bytea_output=values.bytea_output,
    )


async def _session_values(session: SessionContext, result: Result) -> tuple[SessionValues, float | None, str, str]:
    texts = [None if value is None else value.decode() for value in result.rows[0]]
    *texts, idle_in_transaction, idle, transaction_milliseconds, past, placed, _ = texts
    now, statement_now, zone, user, session_user, database, schema, dates, intervals, digits, output, timeout = texts
    assert now is not None
    assert statement_now is not None
    assert zone is not None
    assert user is not None
    assert session_user is not None
    assert database is not None
    assert dates is not None
    assert intervals is not None
    assert digits is not None
    assert output is not None
    assert timeout is not None
    assert past is not None
    assert idle_in_transaction is not None
    assert idle is not None
    assert transaction_milliseconds is not None
    await session.timeouts.take(idle_in_transaction, idle, int(transaction_milliseconds))
    values = SessionValues(
        now=int(now),
        statement_now=int(statement_now),
        time_zone=zone,
        user=user,
        session_user=session_user,
        database=database,
        schema=schema,
        date_style=dates,
        interval_style=intervals,
        extra_float_digits=int(digits),
        bytea_output=output,
    )
    return values, int(timeout) / 1000 or None, past, placed or ""


def runnable(
    query: SparkQuery, reading: Reading, others: Mapping[str, TableVersion] = MappingProxyType({})
) -> RunnableQuery:
    """The plan with each scan bound to the table's version, or to that in `others`, by the scan's name."""
    return RunnableQuery(
        query.sql,
        tuple(bound(scan, reading, others.get(scan.name)) for scan in query.scans),
        spark_zone(reading.context.session.time_zone),
        query.is_eager,
    )


def bound(scan: Scan, reading: Reading, other: TableVersion | None = None) -> BoundScan:
    """One scan bound to the table's version, or another."""
    rows = reading.handed.get(scan.table_oid)
    if rows is not None:
        return BoundScan(scan, TableVersion(reading.context.handed[scan.table_oid], 0, ()), rows=rows)
    version = other or reading.versions.get(scan.table_oid)
    if version is None:
        raise SluiceError(SqlState.UNDEFINED_TABLE, "a table of this statement was dropped meanwhile")
    return BoundScan(scan, version, reading.sidecars)
