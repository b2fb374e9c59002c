"""UPDATE and DELETE that PostgreSQL executes in the shadow, over copied rows of the target and other tables.

It serves statements over few rows, and those that Spark cannot compute. `gateway.execution.changes.shadow_execution`
finds the changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError, unsupported
from catalog.model import Column, Table, TableVersion
from catalog.store import TableRules
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.constant_rows import changed_rows
from gateway.execution.changes.portioned_change import change_portions, portions
from gateway.execution.changes.shadow_execution import (
    Outcome,
    are_written_at_once,
    aside,
    gone_rows,
    has_key,
    paired,
    rehearse,
)
from gateway.execution.reading.handed_rows import Placed, not_computed, placed
from gateway.execution.reading.postgres_query import Computing, is_small
from gateway.execution.shadow.function_guard import send_statement
from gateway.execution.shadow.loaded_rows import Loaded, load_all
from gateway.session.offload import offloaded
from gateway.session.visibility import functions_of_rules, rules
from gateway.statement.query_placement import limits
from gateway.transaction.enlistment import SchemaChangedError
from planner.plans.change_plan import current_of
from planner.plans.computable import functions_of_users
from planner.plans.constant_change import constant_change, is_kept_by
from planner.plans.placement import PLACEMENTS, Engine, Kind
from planner.tree.nodes import Node
from planner.tree.references import tables_read
from storage.spark.write import WriteResult, replace_rows

if TYPE_CHECKING:
    from gateway.backend.own_statement import Statement
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.response_spool import ResponseSpool
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding

_UPDATE: Final = 2  # CmdType of nodes.h


@dataclass(frozen=True, slots=True)
class Changed:
    """The outcome of the statement. `assigned` are the columns that an UPDATE sets, None for a DELETE; `sources` are
    those of `Changing.claim`, and `is_noted` says that they were recorded, not found by a key.
    """

    answers: Collection[bytes] | ResponseSpool
    tag: str
    result: WriteResult
    assigned: Collection[int] | None
    sources: pa.Table | None
    is_noted: bool


async def computed_change(  # noqa: PLR0917
    session: SessionContext,
    query: Node,
    version: TableVersion,
    reading: Reading,
    refusal: SluiceError,
    binding: Binding,
) -> Changed:
    """Execute the statement and write its changes; raises `refusal` if that is impossible."""
    table = version.table
    if version != reading.versions[table.oid] and (table.oid in tables_read(query) or functions_of_users(query)):
        raise unsupported(f'changing table "{table.name}" twice in a statement that also reads it in this way')
    kept = await rules(session, table)
    assigned = _assigned(query, kept.generated)
    functions = functions_of_rules(kept)
    parts = None
    if not is_small([version]):
        parts = await portions(session, query, version, reading, functions, refusal)
    columns, noting = _columns(table, kept), _is_noted(table, assigned)
    send = partial(send_statement, session, binding)
    async with Computing(
        session, query, _beside(reading, table), refusal, table.oid, made_by_users=True, once=True
    ) as computing:
        if parts is not None:

            async def executed(loaded: Loaded, spool: ResponseSpool) -> Outcome:
                return await rehearse(session, table, columns, loaded, send, noting=noting, spool=spool)

            made, answers, tag, sources = await change_portions(session, version, parts, computing, executed)
            return Changed(answers, tag, made, assigned, sources, noting)
        loaded = await asyncio.to_thread(load_all, session.gateway.data_path, version)
        async with computing.watched(functions):
            outcome = await rehearse(session, table, columns, loaded, send, noting=noting)
    return await _written(session, version, loaded, outcome, assigned)


async def place_change(session: SessionContext, query: Node, version: TableVersion, reading: Reading) -> Placed:
    """The engine that begins with the statement.

    If rows would have to be followed one by one, it is Spark: recording them takes a lock that blocks other sessions.
    """
    table = version.table
    where = await placed(session, query, reading)
    if not where.is_with_postgres:
        return where
    kept = await rules(session, table)
    if where.few and version == reading.versions[table.oid] and not table.triggered:
        change = await offloaded(session, reading.size, constant_change, query, reading.context)
        if change is not None and is_kept_by(table, change.values, kept.generated, checked=bool(kept.checks)):
            return replace(where, placement=PLACEMENTS[Engine.AUTO, Kind.CONSTANTS], change=change)
    if functions_of_rules(kept):
        return Placed(PLACEMENTS[Engine.AUTO, Kind.ACTING])
    if version != reading.versions[table.oid] or current_of(query) is not None:
        return Placed(PLACEMENTS[Engine.AUTO, Kind.FOLLOWED])
    if _is_noted(table, _assigned(query, kept.generated)):
        return Placed(PLACEMENTS[Engine.AUTO, Kind.FOLLOWED])
    return where if where.few or is_small([version]) else Placed(PLACEMENTS[Engine.AUTO, Kind.MANY])


async def placed_change(  # noqa: PLR0917
    session: SessionContext,
    query: Node,
    version: TableVersion,
    reading: Reading,
    binding: Binding,
    statement: Statement | None,
) -> Changed | None:
    """Have the gateway or PostgreSQL execute the statement if it is placed there; None if Spark must. `statement` as
    in `rehearse`."""
    table = version.table
    where = await place_change(session, query, version, reading)
    if not where.is_with_postgres and where.change is None:
        return None
    kept = await rules(session, table)
    assigned = _assigned(query, kept.generated)
    loaded = where.found.get(table.oid)
    if loaded is None:
        loaded = await asyncio.to_thread(load_all, session.gateway.data_path, version)
    if where.change is not None:
        changed = None
        with suppress(pa.ArrowInvalid):  # PostgreSQL raises the error about a number that does not fit
            changed = await offloaded(session, loaded.rows.nbytes, changed_rows, table, loaded, where.change)
        if changed is not None:
            return await _written(session, version, *changed, assigned)
    computing = Computing(session, query, _beside(reading, table), not_computed(), table.oid, placed=where, apart=True)
    try:
        async with computing:
            send = partial(send_statement, session, binding)
            try:
                outcome = await rehearse(
                    session, table, _columns(table, kept), loaded, send, limits(reading.timeout), statement=statement
                )
            except SchemaChangedError:
                raise  # its savepoint is undone
            except SluiceError:
                await session.backend.run(*TRIAL.undo)
                raise
    except SluiceError as error:
        if computing.gives_up(error):
            return None
        raise
    return await _written(session, version, loaded, outcome, assigned)


def _is_noted(table: Table, assigned: Collection[int] | None) -> bool:
    """Whether replacements must be recorded row by row, because no key identifies them."""
    if assigned is None:
        return False
    return not has_key(table) or any(not set(key.attnums).isdisjoint(assigned) for key in table.keys)


def _columns(table: Table, kept: TableRules) -> list[Column]:
    return [column for column in table.columns if column.attnum not in kept.generated]


def _beside(reading: Reading, table: Table) -> Reading:
    """The reading without the statement's target."""
    return replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid != table.oid})


async def _written(
    session: SessionContext, version: TableVersion, loaded: Loaded, outcome: Outcome, assigned: Collection[int] | None
) -> Changed:
    hot_rows = session.transaction.hot_rows_max

    def write() -> tuple[WriteResult, pa.Table | None]:
        replaced = gone_rows(version.table, loaded, outcome.kept)
        result = replace_rows(session.gateway.data_path, version, replaced, [outcome.fresh], hot_rows)
        return result, paired(version.table, loaded, outcome)

    result, sources = await aside(are_written_at_once(version.table, loaded, outcome, hot_rows), write)
    return Changed(outcome.answers, outcome.tag, result, assigned, sources, outcome.origins is not None)


def _assigned(query: Node, generated: Collection[int]) -> Collection[int] | None:
    if int(query.commandType) != _UPDATE:
        return None
    return {int(target.resno) for target in query.targetList or () if not target.resjunk} | set(generated)
