"""A query that locks rows of one small table, where Spark cannot determine which: PostgreSQL chooses them.

It runs in the shadow, over copies of the table's rows and of other tables of the query. The rows that it has locked
are read back, and then locked in the lake. If another transaction has changed one since the copy, PostgreSQL chooses
again; if others hold rows of SKIP LOCKED, it chooses again without those.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError
from catalog.model import TableVersion
from gateway.backend.own_message import LOCKED
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.shadow_execution import begin, chosen_positions, rows_of
from gateway.execution.locks.row_locks import Strength, Waiting, check_may_look_again, lock_positions, unharmed
from gateway.execution.reading.postgres_query import Computing, Locked, is_small
from gateway.execution.shadow.function_guard import SCANS
from gateway.execution.shadow.loaded_rows import Loaded, load_all
from gateway.execution.shadow.shadow import shadow_rows
from gateway.session.response_spool import ResponseSpool
from gateway.session.visibility import rules
from planner.plans.computable import functions_of_users
from planner.plans.locking_plan import STRENGTHS, WAITS
from planner.plans.postgres_locking import locked_table

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from planner.tree.nodes import Node


@dataclass(frozen=True, slots=True)
class Chosen:
    """PostgreSQL's answers, the number of rows, and how often shadows were scanned."""

    answers: ResponseSpool
    count: int
    scans: int


async def rehearse_locks(
    session: SessionContext, query: Node, reading: Reading, refusal: SluiceError, binding: Binding, *, once: bool
) -> Chosen | None:
    """Lock the rows, and answer the query; raises `refusal` if that is impossible. None if it must begin again. For
    `once` see `Computing`.
    """
    wanted = locked_table(query)
    version = None if wanted is None else reading.versions.get(wanted.table_oid)
    if wanted is None or version is None or not is_small([version]):
        raise refusal
    loaded = await asyncio.to_thread(load_all, session.gateway.data_path, version)
    while True:
        chosen, rows = await _choose(session, query, reading, refusal, binding, version, loaded, once=once)
        positions = await chosen_positions(version.table, loaded, rows)
        strength, waiting = Strength(STRENGTHS[wanted.strength]), Waiting(WAITS[wanted.waiting])
        locked = await lock_positions(session, positions, version, strength, waiting)
        if not await unharmed(session, locked, version, strength):
            chosen.answers.close()
            await check_may_look_again(session, version, locked)
            return None
        skipped = {path: np.setdiff1d(each, locked.get(path, each[:0])) for path, each in positions.items()}
        if not any(map(len, skipped.values())):
            return chosen
        chosen.answers.close()
        if functions_of_users(query) and chosen.scans > 1:  # these may look at the skipped rows too
            raise refusal
        loaded = loaded.without(skipped)


async def _choose(  # noqa: PLR0917
    session: SessionContext,
    query: Node,
    reading: Reading,
    refusal: SluiceError,
    binding: Binding,
    version: TableVersion,
    loaded: Loaded,
    *,
    once: bool,
) -> tuple[Chosen, pa.Table]:
    """PostgreSQL's answers over the loaded rows of the table, and the rows that it locks."""
    table, kept = version.table, ResponseSpool(only_rows=True)
    generated = (await rules(session, table)).generated
    columns = [column for column in table.columns if column.attnum not in generated]
    beside = replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid != table.oid})
    async with Computing(
        session, query, beside, refusal, table.oid, made_by_users=True, locked=Locked({}), once=once
    ) as computing:
        await begin(session, table, columns, loaded)
        [before] = await session.backend.run(SCANS)
        tag = await computing.send(binding, kept)
        [after, rows, *_] = await session.backend.run(SCANS, shadow_rows(table, LOCKED), *TRIAL.undo)
    scans = int(after.rows[0][0] or 0) - int(before.rows[0][0] or 0)
    return Chosen(kept, int(tag.removeprefix("SELECT ")), scans), rows_of(table, rows.bodies)
