"""Executes a statement by PostgreSQL in the shadow, over copied lake rows, and derives the lake's changes.

The rows are copied into the shadow, the statement runs, its rows are read back, and everything is undone. Loaded rows
that have changed or gone are deleted from the lake; rows that the statement made are inserted. Among rows that are
equal in every column, any may be deleted.

A key that stays tells which new row replaced which old one. If keys may change and others depend on them, or there is
no key, a trigger on the shadow records it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, Table, TableVersion
from gateway.backend import catalog_calls
from gateway.backend.own_message import LOCKED, of_shadow, shadow_view
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import STATEMENT, TRIAL
from gateway.execution.constraints.foreign_key_referenced import follows_rows, referring
from gateway.execution.locks.row_locks import Strength, changed_meanwhile
from gateway.execution.shadow.function_guard import changes_beside, count_of, relay_rows, send_messages, send_query
from gateway.execution.shadow.loaded_rows import Loaded, row_schema
from gateway.execution.shadow.shadow import (
    MAY_COPY,
    begin_shadow,
    copy_rows,
    copying_few,
    placed_to_lake_form,
    put_rows,
    qualified,
    resume,
    rows_of_bodies,
    runs_checks,
    shadow_rows,
    suspending,
    to_lake_form,
)
from gateway.execution.shadow.trigger_bypass import bypass_triggers, role_again
from gateway.statement.portal import Binding, StatementPortal
from gateway.values import OutputSettings
from gateway.values.text import text_cells
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import CommandComplete
from storage.indexes.keys import keys_of
from storage.parquet.hot_rows import may_be_hot

if TYPE_CHECKING:
    from gateway.execution.changes.row_changes import Changing
    from gateway.session.response_spool import ResponseSpool
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult

_PAIRS: Final = pa.schema([("before", pa.binary()), ("after", pa.binary())])
_MAY_COPY: Final = f"SELECT {MAY_COPY.format('$1::pg_catalog.int8::pg_catalog.oid')}"
_NO_MARK: Final = "-1"
# Work on so many rows and bytes, of files with so many rows, takes less time than a thread.
_ROWS_AT_ONCE: Final = 100
_BYTES_AT_ONCE: Final = 16 * 1024
_FILE_ROWS_AT_ONCE: Final = 100_000
_P = ParamSpec("_P")
_T = TypeVar("_T")
_OF_KEYS: Final = (SqlState.UNIQUE_VIOLATION, SqlState.EXCLUSION_VIOLATION)
_OF_DOMAINS: Final = (SqlState.CHECK_VIOLATION, SqlState.NOT_NULL_VIOLATION)
_NULL: Final = pa.scalar(b"N", pa.binary())
_NOTHING: Final = pa.scalar(b"", pa.binary())
_COLON: Final = pa.scalar(b":", pa.binary())
# A temporary table of rows for the statement to read; and the name of the gateway's own statement.
PROPOSED: Final = f"{OWN}_proposed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome: answers to the client, the rows that the statement made, the loaded rows that it left, and which of
    these it has locked. `origins` has for each made row the number of the loaded row that it replaced, NULL for none;
    it is None if that was not recorded.
    """

    answers: list[bytes]
    tag: str
    fresh: pa.Table
    kept: pa.Table
    locked: pa.Table
    origins: pa.Array | None = None


async def begin(
    session: SessionContext,
    table: Table,
    columns: Sequence[Column],
    loaded: Loaded,
    limits: Sequence[Statement] = (),
    *,
    noting: bool = False,
) -> str:
    """Copy the loaded rows into the shadow (`columns`: all but the generated ones); return their mark for `finish`.
    `limits` are set in the savepoint that it begins.
    """
    count = loaded.rows.num_rows
    loading = [*bypass_triggers([table]), Statement(_MAY_COPY, (str(table.oid),)), suspending(table)]
    loading = loading if count else [STATEMENT.begin]
    answers = await begin_shadow(session, table, *limits, *([] if noting else loading))
    if noting:  # first, because its lock is stronger than that for copying rows
        await _note(session, table)
        answers = await session.backend.run(*loading)
    if not count:
        return _NO_MARK
    if not columns:
        raise unsupported("this statement over rows of generated columns alone")
    may_copy, suspended = answers[-2:]
    rows = loaded.rows.select([column.name for column in columns])
    session.gateway.store.undone_rows.left(table.oid, count)
    roles = [role_again(answers[-3].rows[0][0])] if table.triggered else []
    try:
        few = None
        if may_copy.rows[0][0] == b"t" and not runs_checks(columns):
            few = copying_few(qualified(table), columns, rows) if suspended.rows[0][0] is None else None
            if few is None:
                await copy_rows(session, qualified(table), columns, rows)
        else:
            for batch in rows.to_batches():
                await put_rows(session, table, columns, batch)
        await resume(session, [suspended])
        return await loaded_mark(session, table, *roles, few=few)
    except SluiceError as error:
        if error.sqlstate in _OF_KEYS:  # rows of several versions
            raise changed_meanwhile() from error
        if error.sqlstate not in _OF_DOMAINS:
            raise
        raise unsupported("this statement over rows that a constraint of a domain forbids") from error


async def _note(session: SessionContext, table: Table) -> None:
    """Let a trigger note updates. To make it changes catalogs, which is no function's doing."""
    note = catalog_calls.note_updates(table.oid)
    if session.own_changes is None:
        await session.backend.run(note)
        return
    count = changes_beside(table.oid)
    before, _, after = await session.backend.run(count, note, count)
    session.own_changes += count_of(after) - count_of(before)


async def loaded_mark(session: SessionContext, table: Table, *then: Statement, few: Statement | None = None) -> str:
    """The mark of the rows that are in the shadow now, and of those that `few` copies; rows made later have another.
    `then` runs before."""
    loaded = of_shadow(table.oid, f"SELECT pg_catalog.min(xmin::pg_catalog.text) FROM {shadow_view(table.oid)}")
    copying = [] if few is None else [few]
    answers = await session.backend.run(*copying, Statement(loaded), *then, STATEMENT.begin)
    [[number]] = answers[len(copying)].rows
    return _NO_MARK if number is None else number.decode()


async def rehearse(  # noqa: PLR0917
    session: SessionContext,
    table: Table,
    columns: Sequence[Column],
    loaded: Loaded,
    send: Callable[[], Awaitable[None]],
    limits: Sequence[Statement] = (),
    *,
    noting: bool = False,
    statement: Statement | None = None,
    spool: ResponseSpool | None = None,
) -> Outcome:
    """Execute the statement that `send` sends to the backend. An error leaves the savepoints open.

    `noting`: record which row replaced which, whatever happens to keys. `limits`: of `begin`. `statement` is the same
    statement where its answer has no rows; it takes no round trip of its own then. With `spool`, that keeps the
    answers.
    """
    mark = await begin(session, table, columns, loaded, limits, noting=noting)
    answers: list[bytes] = []
    tag, together = "", [] if statement is None or noting else [statement]
    if not together:
        await send()
        tag = await relay_rows(session, answers if spool is None else spool)
    there = f"xmin::pg_catalog.text OPERATOR(pg_catalog.=) '{mark}'"
    conditions = (made(mark), there, f"{there} AND {LOCKED}")
    reads = [shadow_rows(table, each, placed=noting and not place) for place, each in enumerate(conditions)]
    if not noting:
        results = await session.backend.run(*together, *reads, *TRIAL.undo)
        if together:
            first, *results = results
            answers, tag = [notice.encode() for notice in first.notices], first.tag
        try:
            fresh, kept, locked = (rows_of(table, result.bodies) for result in results[: len(conditions)])
        except SluiceError:  # a value that the lake cannot keep
            await session.backend.run(TRIAL.begin)
            raise
        session.gateway.store.undone_rows.left(table.oid, fresh.num_rows)
        return Outcome(answers, tag, fresh, kept, locked)
    noted = catalog_calls.noted_updates()
    made_now, *rest, updates, _ = await session.backend.run(*reads, noted, STATEMENT.again)
    kept, locked = (rows_of(table, result.bodies) for result in rest)
    fresh, places = _placed(table, made_now.bodies)
    session.gateway.store.undone_rows.left(table.oid, fresh.num_rows)
    pairs = pa.Table.from_batches(rows_of_bodies(["before", "after"], updates.bodies), _PAIRS)
    # The statement is undone, and the rows that it replaced are at their places again.
    replaced = f"ctid OPERATOR(pg_catalog.=) ANY ('{{{_listed(pairs)}}}'::pg_catalog.tid[])"
    [found, *_] = await session.backend.run(shadow_rows(table, replaced, placed=True), *TRIAL.undo)
    old, old_places = _placed(table, found.bodies)

    def origins() -> pa.Array:
        before, after = (pairs[name].combine_chunks() for name in ("before", "after"))
        numbers = _numbers(table, loaded.rows, kept, old)
        return numbers.take(pc.index_in(before.take(pc.index_in(places, after)), old_places))

    return Outcome(answers, tag, fresh, kept, locked, await asyncio.to_thread(origins))


def _listed(pairs: pa.Table) -> str:
    """The places of the old rows, as elements of an array in text."""
    joined = pc.binary_join(pa.array([pairs["before"].to_pylist()], pa.list_(pa.binary())), b'","')
    return f'"{joined[0].as_py().decode()}"' if pairs.num_rows else ""


def _placed(table: Table, bodies: list[bytes]) -> tuple[pa.Table, pa.Array]:
    """Rows of the shadow in lake form, with the place of each."""
    batches, places = placed_to_lake_form(table, bodies)
    return pa.Table.from_batches([batch.cast(row_schema(table)) for batch in batches], row_schema(table)), places


def _numbers(table: Table, rows: pa.Table, kept: pa.Table, old: pa.Table) -> pa.Array:
    """The number of each old row among the rows that were not kept; equal rows get distinct numbers."""
    places = np.flatnonzero(~_among(table, rows, kept))
    gone_now, wanted = (_told_apart(_contents(table, each)) for each in (rows.take(pa.array(places)), old))
    return pa.array(places).take(pc.index_in(wanted, gone_now))


def _told_apart(contents: pa.Array) -> pa.Array:
    """Each value with its number among equal ones."""
    encoded = contents.dictionary_encode()
    numbers = pa.array(_ranks(encoded.indices.to_numpy(zero_copy_only=False)))
    return pc.binary_join_element_wise(contents, numbers.cast(pa.string()).cast(pa.binary()), b":")


def _ranks(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each value, how many equal ones precede it."""
    order = np.argsort(numbers, kind="stable")
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers)) - np.searchsorted(numbers[order], numbers[order])
    return rank


async def conclude(
    portal: StatementPortal,
    changing: Changing,
    version: TableVersion,
    outcome: Outcome,
    result: WriteResult,
    *,
    sources: pa.Table | None,
    updates: bool = True,
    deletes: bool = False,
    assigned: Collection[int] | None = None,
) -> None:
    """After writing the outcome: check constraints, answer the client, stage or commit.

    `sources` are the `paired` rows. If pairs were not recorded, only `updates` and `deletes` tell what may have
    happened to replaced rows. With `assigned`, every new row has replaced one, and differs from it in these columns
    alone.
    """
    every = [column.attnum for column in version.table.columns]
    known = sources if outcome.origins is not None else None
    if assigned is None and result.positions and updates:
        assigned = every
    by_key = sources if updates and not deletes else None
    await changing.wrote(result, version, assigned, sources=known, mixed=deletes, by_key=by_key)
    await portal.pass_on(outcome.answers)
    await changing.finish(outcome.tag)
    portal.session.client.send(CommandComplete(outcome.tag))


def made(mark: str) -> str:
    """The condition for rows of the shadow that the statement made."""
    return f"xmin::pg_catalog.text OPERATOR(pg_catalog.<>) '{mark}'"


async def send_own(session: SessionContext, sql: str, binding: Binding, parameter_types: Sequence[int]) -> None:
    """Send a statement in place of the client's, with its parameters and result formats."""
    if binding.raw_query is not None and not binding.parameters:
        await send_query(session, sql)
        return
    messages = (
        frontend.Parse(PROPOSED, sql, tuple(parameter_types)),
        frontend.Bind("", PROPOSED, binding.parameter_formats, binding.parameters, binding.result_formats),
        frontend.Execute(""),
        frontend.Close(b"S", PROPOSED),
    )
    await send_messages(session, *messages)


def rows_of(table: Table, bodies: list[bytes]) -> pa.Table:
    """Rows of the shadow in lake form."""
    batches = [batch.cast(row_schema(table)) for batch in to_lake_form(table, bodies)]
    return pa.Table.from_batches(batches, row_schema(table))


async def rows_aside(table: Table, bodies: list[bytes]) -> pa.Table:
    """`rows_of`, in a thread unless they are few."""
    return await aside(sum(map(len, bodies)) <= _BYTES_AT_ONCE, rows_of, table, bodies)


async def aside(few: bool, work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """The result of work on rows: in a thread, unless they are few and no file is opened."""
    return work(*arguments, **named) if few else await asyncio.to_thread(work, *arguments, **named)


def are_few(*rows: pa.Table) -> bool:
    """Whether work on these rows takes less time than a thread."""
    count, size = sum(each.num_rows for each in rows), sum(each.nbytes for each in rows)
    return bool(count <= _ROWS_AT_ONCE and size <= _BYTES_AT_ONCE)


def are_written_at_once(table: Table, loaded: Loaded, outcome: Outcome, hot_rows: int) -> bool:
    """Whether writing the change, with up to so many `hot_rows`, opens no file, and takes less time than a thread."""
    return (
        may_be_hot(table)
        and are_few(loaded.rows, outcome.fresh)
        and loaded.rows.num_rows + outcome.fresh.num_rows <= hot_rows
        and sum(file.record_count for file in loaded.files) <= _FILE_ROWS_AT_ONCE
        and all(file.delete_file is None or file.delete_file.file is None for file in loaded.files)
    )


def gone_rows(table: Table, loaded: Loaded, kept: pa.Table) -> dict[str, npt.NDArray[np.int64]]:
    """The loaded rows that have changed or gone: their positions, by the path of their data file. Blocking."""
    return loaded.by_path(~_among(table, loaded.rows, kept))


async def gone(table: Table, loaded: Loaded, kept: pa.Table) -> dict[str, npt.NDArray[np.int64]]:
    """`gone_rows`, in a thread unless they are few."""
    return await aside(are_few(loaded.rows, kept), gone_rows, table, loaded, kept)


async def chosen_positions(table: Table, loaded: Loaded, chosen: pa.Table) -> dict[str, npt.NDArray[np.int64]]:
    """The positions of the chosen loaded rows, by the path of their data file."""
    return await asyncio.to_thread(lambda: loaded.by_path(_among(table, loaded.rows, chosen)))


async def met(table: Table, loaded: Loaded, outcome: Outcome) -> dict[str, npt.NDArray[np.int64]]:
    """The positions of the loaded rows that the statement has replaced or locked, by the path of their data file."""

    def compare() -> dict[str, npt.NDArray[np.int64]]:
        kept, locked = (_among(table, loaded.rows, rows) for rows in (outcome.kept, outcome.locked))
        return loaded.by_path(~kept | locked)

    return await aside(are_few(loaded.rows, outcome.kept, outcome.locked), compare)


def has_key(table: Table) -> bool:
    """Whether a key identifies the table's rows at any time."""
    return any(not key.deferrable for key in table.keys)


async def must_note(session: SessionContext, table: Table, *, deletes: bool = False) -> bool:
    """Whether replacements must be recorded, because a statement may change the table's keys."""
    return not has_key(table) or any(
        follows_rows(each, mixed=deletes) for each in await referring(session, table, None)
    )


def paired(table: Table, loaded: Loaded, outcome: Outcome) -> pa.Table | None:
    """The loaded row that each new one replaced, as `WriteResult.sources`, with NULL for none; None if that was not
    recorded, and no key tells it. Blocking.
    """
    places = outcome.origins
    if places is None:
        if not has_key(table):
            return None
        key = next(key for key in table.keys if not key.deferrable)
        columns = [table.column(attnum) for attnum in key.attnums]
        before, fresh = (
            keys_of(columns, [one_array(rows, column) for column in columns]) for rows in (loaded.rows, outcome.fresh)
        )
        places = pc.index_in(fresh, before, skip_nulls=True)
    files = pa.array([file.path for file in loaded.files], pa.string())
    numbers = pa.array(loaded.file_numbers).take(places).cast(pa.int32())
    return pa.table(
        {
            "file": pa.DictionaryArray.from_arrays(numbers, files),
            "position": pa.array(loaded.positions).take(places),
        }
    )


def _among(table: Table, rows: pa.Table, chosen: pa.Table) -> npt.NDArray[np.bool_]:
    """For each row, whether it is one of the chosen, which all are among the rows."""
    if len(chosen) in (0, len(rows)):
        return np.full(len(rows), len(chosen) > 0)
    before, after = _contents(table, rows), _contents(table, chosen)
    encoded = before.dictionary_encode()
    numbers = encoded.indices.to_numpy(zero_copy_only=False)
    matches = pc.index_in(after, encoded.dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    left = np.bincount(matches, minlength=len(encoded.dictionary))
    # Among equal rows, the first ones count as chosen.
    is_chosen: npt.NDArray[np.bool_] = _ranks(numbers) < left[numbers]
    return is_chosen


def strength_of(table: Table, loaded: Loaded, outcome: Outcome) -> Strength:
    """The lock strength for replaced rows: the weaker one if all their keys still exist."""
    for key in table.keys:
        columns = [table.column(attnum) for attnum in key.attnums]
        before, kept, fresh = (
            keys_of(columns, [one_array(rows, column) for column in columns]).drop_null()
            for rows in (loaded.rows, outcome.kept, outcome.fresh)
        )
        if not key.deferrable and not pc.all(pc.is_in(before, pa.concat_arrays([kept, fresh]))).as_py():
            return Strength.UPDATE
    return Strength.NO_KEY_UPDATE


def _contents(table: Table, rows: pa.Table) -> pa.Array:
    """Each row's values as one binary value."""
    settings, pieces = OutputSettings(), []
    for column in table.columns:
        array = one_array(rows, column)
        text = text_cells(array, column.type_oid, settings)
        valid = array.is_valid()
        length = pc.binary_length(text).cast(pa.string()).view(pa.binary())
        pieces += [pc.if_else(valid, length, _NULL), pc.if_else(valid, text, _NOTHING)]
    return pc.binary_join_element_wise(*pieces, _COLON)


def one_array(rows: pa.Table, column: Column) -> pa.Array:
    """A column of rows as one array."""
    chunked = rows[column.name]
    return pa.concat_arrays(chunked.chunks) if chunked.num_chunks else pa.nulls(0, chunked.type)
