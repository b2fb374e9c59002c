"""Turns changes of rows in filled shadows into changes of the lake, like those of a client's statement."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.backend.own_statement import Statement
from gateway.backend.own_text import escaped
from gateway.execution.changes.row_changes import Written
from gateway.execution.changes.shadow_execution import Outcome, chosen_positions, gone, has_key, paired, strength_of
from gateway.execution.filling.taken_rows import Taken, followed
from gateway.execution.locks.row_locks import (
    Contested,
    RowsChangedError,
    Strength,
    Waiting,
    check_may_look_again,
    hold_rows,
    is_locked,
    may_look_again,
)
from gateway.execution.shadow.loaded_rows import Loaded, load_all, nothing_loaded
from storage.spark.write import WriteResult, replace_rows

if TYPE_CHECKING:
    from gateway.execution.changes.row_changes import Changing
    from gateway.execution.constraints.constraint_validation import Obligation
    from gateway.session.session_context import SessionContext

# Foreign keys lock rows too, which the lake's own check handles. This finds the row locks that users request, also in
# functions.
_LOCKS: Final = escaped(r"for\s+(no\s+key\s+|key\s+)?(update|share)")
_MAY_LOCK: Final = f"""
SELECT $1::pg_catalog.text OPERATOR(pg_catalog.~*) {_LOCKS} OR EXISTS (
    SELECT FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) 16384
        AND pronamespace OPERATOR(pg_catalog.<>) 'pg_sluice'::pg_catalog.regnamespace
        AND (prosrc OPERATOR(pg_catalog.~*) {_LOCKS} OR prosqlbody IS NOT NULL))
"""


class MissedError(Exception):
    """The lake forbids a change whose statement has not seen the reason."""

    def __init__(self, error: SluiceError) -> None:
        super().__init__(error.message)
        self.error = error


async def take_changes(
    changing: Changing,
    taken: Sequence[Taken],
    sql: str,
    acted: Mapping[int, Collection[str]],
    *,
    may_fail: bool,
    left_out: bool = False,
    lost: list[Contested],
    waiting: Waiting,
) -> bool:
    """Write and stage the taken changes of the statement `sql`. False if other transactions have changed one of these
    rows since, or have unseen keys, unless it `may_fail`; the statement must then be executed again. `acted` is that of
    `Changing.wrote_together`.

    `lost` gets rows that are in the way, which are not waited for unless `waiting` says so.
    `left_out`: the statement has not seen all rows that may forbid its changes. Raises MissedError if these do.
    """
    written: list[Written] = []
    complete = False
    try:
        complete = await _write_all(changing, taken, sql, written, lost=lost, waiting=waiting)
    finally:
        if not complete:
            for each in written:
                await changing.discard(each.result, each.version.table)
    if not complete:
        return False
    try:
        await changing.wrote_together(written, acted, checked=not left_out)
    except SluiceError as error:
        # PostgreSQL would have raised the error inside of the function; a repetition sees the rows.
        is_of_rows = error.sqlstate[:2] == "23"
        if is_of_rows and left_out:
            raise MissedError(error) from error
        others_came = isinstance(error, RowsChangedError)
        if may_fail or not (is_of_rows or others_came) or not may_look_again(changing.session):
            raise
        if others_came:  # while the removed rows stay locked, no more can come
            lost += [Contested(each.version, each.result.positions, Strength.UPDATE) for each in written]
        return False
    return True


async def _write_all(
    changing: Changing,
    taken: Sequence[Taken],
    sql: str,
    written: list[Written],
    *,
    lost: list[Contested],
    waiting: Waiting,
) -> bool:
    """Lock the taken rows and write the changes; `written` gets what is written so far. False as in `take_changes`."""
    session = changing.session
    may_lock = any(each.locked.num_rows for each in taken) and await _may_lock(session, sql)
    for each in taken:
        locks = may_lock and bool(each.locked.num_rows)
        if not (locks or each.is_changed):
            continue
        loaded = each.loaded or nothing_loaded(each.version.table)
        if each.loaded is None and (locks or each.replaces):
            loaded = await asyncio.to_thread(load_all, session.gateway.data_path, each.version)
        if locks and not await _lock(session, each, loaded, lost, waiting):
            return False
        if not each.is_changed:
            continue
        if (wrote := await _write(changing, each, loaded, lost, waiting)) is None:
            return False
        if wrote.result.data_files or wrote.result.delete_files or wrote.truncates:
            written.append(wrote)
    return True


async def _may_lock(session: SessionContext, sql: str) -> bool:
    [answer] = await session.backend.run(Statement(_MAY_LOCK, (sql,)))
    return answer.rows[0][0] == b"t"


async def _lock(session: SessionContext, taken: Taken, loaded: Loaded, lost: list[Contested], waiting: Waiting) -> bool:
    rows = await chosen_positions(taken.version.table, loaded, taken.locked)
    try:
        if await hold_rows(session, rows, taken.version, Strength.UPDATE, waiting):
            return True
    except SluiceError as error:
        if not is_locked(error, waiting):
            raise
    else:
        await check_may_look_again(session, taken.version, rows)
    lost.append(Contested(taken.version, rows, Strength.UPDATE))
    return False


async def _write(
    changing: Changing, taken: Taken, loaded: Loaded, lost: list[Contested], waiting: Waiting
) -> Written | None:
    session, version = changing.session, taken.version
    table, path = version.table, session.gateway.data_path
    if taken.written is not None:
        return Written(version, taken.written, None, updates=False, truncates=taken.truncated)
    outcome = Outcome([], "", taken.fresh, taken.kept, taken.locked)
    replaced = await gone(table, loaded, taken.kept) if taken.replaces else {}
    if not replaced and not taken.fresh.num_rows:
        return Written(version, WriteResult(), None, updates=False, truncates=taken.truncated)
    hot_rows = session.transaction.hot_rows_max
    result = await asyncio.to_thread(replace_rows, path, version, replaced, [taken.fresh], hot_rows)
    if not replaced:
        return Written(version, result, None, updates=False, truncates=taken.truncated)
    sources = await asyncio.to_thread(paired, table, loaded, outcome)
    strength = await asyncio.to_thread(strength_of, table, loaded, outcome)
    if not await changing.claim(result, version, strength, sources=sources, lost=lost, waiting=waiting):
        return None
    told = taken.updates_one and (
        has_key(table) or taken.loaded is not None
    )  # else it may be another row that is alike
    return Written(
        version,
        result,
        result.in_order(sources),
        updates=taken.fresh.num_rows > 0,
        followed=followed(replaced) if told else None,
    )


def constrained(wanted: Iterable[Obligation], changed: Iterable[int], locked: Iterable[int]) -> frozenset[int]:
    """Of the `changed` tables, those that have got constraints too."""
    tables = frozenset(each.relid for each in wanted)
    if not tables.isdisjoint(locked):
        raise unsupported("a function that locks rows and adds a constraint")
    return tables.intersection(changed)


def is_undecided(error: SluiceError) -> bool:
    """Whether an error does not tell how the statement would have ended over the lake's rows."""
    return error.sqlstate in (SqlState.LOCK_NOT_AVAILABLE, SqlState.FEATURE_NOT_SUPPORTED, SqlState.QUERY_CANCELED)
