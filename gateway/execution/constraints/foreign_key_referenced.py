"""FOREIGN KEY, the referenced side: checks rows that reference removed keys, and finds the actions for them.

It reads what is committed now and the transaction's own rows. Row locks make a deletion wait for new references to its
rows, and the reverse. Bulk changes have no such locks; they are checked at COMMIT, when both tables are locked
(`Transaction.validate`). Source: PostgreSQL's ri_triggers.c for messages, and for when an action is executed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.constraints import Action, ForeignKey, foreign_key_from_json
from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Column, Table, TableVersion
from catalog.publish import RowChange
from gateway.backend.own_statement import Statement
from gateway.execution.constraints.unique_check import described_key
from gateway.execution.locks.row_locks import changed_meanwhile, lock_keys
from gateway.execution.reading.error_privileges import discreet
from gateway.session.visibility import Current, current
from gateway.transaction.validation import Validation
from storage.indexes.keys import Found, LiveFile, bounds_of, distinct, find, key_chunks, keys_of
from storage.parquet.file_rows import read_positions

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_REFERRING: Final = "SELECT pg_sluice.referring($1::bigint::pg_catalog.oid)"


@dataclass(frozen=True, slots=True)
class Gone:
    """Distinct keys of a table that a statement removed, with their columns.

    `replaced` has the new keys in parallel, if the statement updated the rows.
    """

    keys: pa.Array
    columns: pa.RecordBatch
    replaced: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True)
class Consequence:
    """Rows of a child table that an action of a foreign key changes."""

    foreign_key: ForeignKey
    action: Action
    parent: Table
    gone: Gone
    found: Found


async def still_referenced(session: SessionContext, consequence: Consequence, child: Table) -> SluiceError:
    """PostgreSQL's error if the action itself made rows reference the key again."""
    row = consequence.gone.columns.slice(int(consequence.found.wanted[0]), 1)
    return await _still_referenced(session, consequence.parent, child, consequence.foreign_key, Action.NO_ACTION, row)


async def renewed(session: SessionContext, consequence: Consequence) -> Consequence:
    """The same with the present referencing rows; the parent's change is staged."""
    child = await current(session, consequence.foreign_key.child, None)
    found = await _children(session, consequence.parent, consequence.foreign_key, consequence.gone, child, child.files)
    return replace(consequence, found=found)


async def referring(session: SessionContext, table: Table, assigned: Collection[int] | None) -> list[ForeignKey]:
    """The foreign keys that reference columns which a statement deletes (None) or assigns, in the order of
    PostgreSQL's triggers.
    """
    # A foreign key references all columns of a key.
    if all(assigned is not None and set(key.attnums).isdisjoint(assigned) for key in table.keys):
        return []
    [result] = await session.backend.run(Statement(_REFERRING, (str(table.oid),)))
    value = result.rows[0][0]
    assert value is not None
    found = sorted((foreign_key_from_json(each) for each in json.loads(value)), key=lambda each: each.oid)
    return [each for each in found if assigned is None or not set(each.parent_attnums).isdisjoint(assigned)]


@dataclass(frozen=True, slots=True)
class Replaced:
    """Rows of `version` that a staged change deletes or replaces, by the path of their data file.

    `updated`: they got other values; `sources` pairs these with them, if known, and has NULL for other new rows.
    `mixed`: of unpaired rows, it is unknown which were deleted and which updated. `judged`: PostgreSQL has deleted them
    in shadows, and has refused what RESTRICT forbids.
    """

    version: TableVersion
    change: RowChange
    rows: Mapping[str, npt.NDArray[np.int64]]
    sources: pa.Table | None
    updated: bool
    mixed: bool = False
    judged: bool = False

    def parts(self) -> list[Replaced]:
        """The updated rows and the deleted ones, if known."""
        if self.sources is None or self.sources.num_rows - self.sources["position"].null_count == self.count:
            return [self]
        files = pc.cast(self.sources["file"], pa.string())
        kept = {
            path: np.intersect1d(places, self.sources["position"].filter(pc.equal(files, path)).to_numpy())
            for path, places in self.rows.items()
        }
        gone = {path: np.setdiff1d(places, kept[path]) for path, places in self.rows.items()}
        updated = replace(self, rows=_without_empty(kept), updated=True)
        deleted = replace(self, rows=_without_empty(gone), sources=None, updated=False)
        return [each for each in (updated, deleted) if each.rows]

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(map(len, self.rows.values()))


def _without_empty(rows: Mapping[str, npt.NDArray[np.int64]]) -> Mapping[str, npt.NDArray[np.int64]]:
    return {path: places for path, places in rows.items() if len(places)}


async def consequence(
    session: SessionContext,
    replaced: Replaced,
    foreign_key: ForeignKey,
    acted: Collection[str] | None = None,
    *,
    late: bool,
    restricting: bool,
) -> Consequence | None:
    """The action of a foreign key on removed rows; None if there is none.

    Raises 23503 or 23001 if it forbids the removal. A `late` one is checked at its validation instead; so is RESTRICT,
    unless `restricting`. `acted`: PostgreSQL has carried the action out over the child's rows in these files, by path,
    and over the transaction's own. Triggers may have kept some, which it does not look at again. 40001 if others have
    added rows since.
    """
    table = replaced.version.table
    action = _action(replaced, foreign_key)
    gone = await asyncio.to_thread(_gone, session.gateway.data_path, replaced, foreign_key)
    # Only NO ACTION checks whether another row has got the key. A statement without new rows has given it to none.
    remade = action is Action.NO_ACTION or (replaced.updated and gone.replaced is None)
    if replaced.change.data_files and remade:
        gone = await _without_present(session, await current(session, table.oid, None), foreign_key, gone)
    if not len(gone.keys):
        return None
    await lock_keys(session, table, foreign_key, gone.keys)
    child = await current(session, foreign_key.child, None)
    later = late and (action is Action.NO_ACTION or (action is Action.RESTRICT and not restricting))
    wanted: Consequence | None = None
    own = frozenset[int | None]()
    if not later:
        files: Sequence[LiveFile] = child.files
        if foreign_key.deferrable and replaced.change.data_files:
            acted = None  # keys may have changed, for which another action would be right
        if action in (Action.NO_ACTION, Action.RESTRICT):
            acted = None
        if acted is not None:
            files = _unmet(child, acted)
            # Checks that are deferred were PostgreSQL's, and are undone with the shadows: COMMIT looks at new rows.
            own = frozenset() if foreign_key.deferrable else frozenset({None})
        found = await _children(session, table, foreign_key, gone, child, files)
        if len(found) and acted is not None:
            raise changed_meanwhile()
        unpaired = replaced.updated and gone.replaced is None
        if len(found) and unpaired and follows_rows(foreign_key, mixed=replaced.mixed):
            raise unsupported("a change of keys that foreign keys' actions follow, by other than an UPDATE or DELETE,")
        if len(found) and action in (Action.NO_ACTION, Action.RESTRICT):
            row = gone.columns.slice(int(found.wanted[0]), 1)
            raise await _still_referenced(session, table, child.table, foreign_key, action, row)
        if len(found):
            wanted = Consequence(foreign_key, action, table, gone, found)

    seen = frozenset[int | None]() if later else child.published | own
    said = Action.RESTRICT if later and action is Action.RESTRICT else Action.NO_ACTION

    async def again() -> None:
        await _validate(session, table.oid, foreign_key, gone, seen, said)

    looks_again = later or (acted is not None and foreign_key.deferrable)
    snapshot = -1 if looks_again else child.snapshot
    validation = Validation(foreign_key.oid, snapshot, again, name=foreign_key.name)
    session.transaction.validate(foreign_key.child, validation)
    return wanted


def _action(replaced: Replaced, foreign_key: ForeignKey) -> Action:
    """The action on removed rows."""
    action = foreign_key.on_update if replaced.updated else foreign_key.on_delete
    if replaced.judged and action is Action.RESTRICT and foreign_key.on_update is Action.NO_ACTION:
        return Action.NO_ACTION  # PostgreSQL has refused deletions, so an UPDATE has changed the key
    return action


def _unmet(child: Current, acted: Collection[str]) -> list[LiveFile]:
    """The files of others that are none of those."""
    return [each for each in child.files if each.file.data_file_id is not None and each.file.path not in acted]


def follows_rows(foreign_key: ForeignKey, *, mixed: bool) -> bool:
    """Whether the foreign key's action needs pairs of old and new rows after a change of keys, or, for `mixed` rows,
    which were deleted.
    """
    same = foreign_key.on_update is foreign_key.on_delete and set(foreign_key.set_attnums) >= set(foreign_key.attnums)
    return foreign_key.on_update is Action.CASCADE or (mixed and not same)


def _gone(data_path: str, changed: Replaced, foreign_key: ForeignKey) -> Gone:
    """The referenced columns of rows whose values have changed. Blocking."""
    version, rows, sources, table = changed.version, changed.rows, changed.sources, changed.version.table
    columns = [table.column(attnum) for attnum in foreign_key.parent_attnums]
    files = {file.path: file for file in version.files}
    old = {path: read_positions(data_path, table, files[path], columns, places) for path, places in rows.items()}
    replaced: pa.RecordBatch | None = None
    if sources is None:
        taken = pa.concat_tables(old.values())
    else:
        known = sources["position"].is_valid()
        taken = _in_order(old, rows, sources.filter(known))
        new = key_chunks(
            data_path, table, [LiveFile(file) for file in changed.change.data_files], columns, nulls_distinct=False
        )
        made = pa.Table.from_batches([chunk.columns for chunk in new], taken.schema)
        replaced = _one_batch(made.filter(known))
    batch = _one_batch(taken)
    keys = keys_of(columns, batch.columns)
    has_key = keys.is_valid()
    if replaced is not None:
        has_key = pc.and_(has_key, pc.invert(_is_same(batch, replaced)))
    keys, batch = keys.filter(has_key), batch.filter(has_key)
    if replaced is not None:
        replaced = replaced.filter(has_key)
    keys, places = distinct(keys)
    chosen = pa.array(places)
    return Gone(keys, batch.take(chosen), None if replaced is None else replaced.take(chosen))


def _is_same(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.BooleanArray:
    """Whether the rows have the same values to the last bit. Equal keys may differ, like 1.0 and 1.00, and
    PostgreSQL's actions follow that (`ri_KeysEqual` in ri_triggers.c).
    """
    same = pa.repeat(pa.scalar(True), len(old))
    for before, after in zip(old.columns, new.columns, strict=True):
        same = pc.and_(same, pc.fill_null(pc.equal(_bits(before), _bits(after)), False))
    return same


def _bits(array: pa.Array) -> pa.Array:
    """Floats as integers: -0 then differs from 0, and NaN equals NaN."""
    return array.view(f"int{array.type.bit_width}") if pa.types.is_floating(array.type) else array


def _in_order(old: Mapping[str, pa.Table], rows: Mapping[str, npt.NDArray[np.int64]], sources: pa.Table) -> pa.Table:
    """The old rows in the order of the new ones."""
    offsets = dict(zip(old, np.cumsum([0, *(len(rows[path]) for path in old)])[:-1], strict=True))
    order = np.empty(sources.num_rows, np.int64)
    files = pc.cast(sources["file"], pa.string()).combine_chunks()
    positions = sources["position"].to_numpy()
    for path in old:
        here = np.flatnonzero(pc.equal(files, path).to_numpy(zero_copy_only=False))
        order[here] = offsets[path] + np.searchsorted(rows[path], positions[here])
    return pa.concat_tables(old.values()).take(pa.array(order))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


async def _without_present(session: SessionContext, now: Current, foreign_key: ForeignKey, gone: Gone) -> Gone:
    """The keys that the table no longer has: another row may have got one of them."""
    columns = [now.table.column(attnum) for attnum in foreign_key.parent_attnums]
    found = await asyncio.to_thread(_find, session.gateway.data_path, now.table, columns, now.files, columns, gone)
    kept = pa.array(np.setdiff1d(np.arange(len(gone.keys)), found.wanted))
    replaced = None if gone.replaced is None else gone.replaced.take(kept)
    return Gone(gone.keys.take(kept), gone.columns.take(kept), replaced)


async def _children(  # noqa: PLR0917
    session: SessionContext,
    parent: Table,
    foreign_key: ForeignKey,
    gone: Gone,
    child: Current,
    files: Sequence[LiveFile],
) -> Found:
    """The child's rows that reference removed keys."""
    columns = [child.table.column(attnum) for attnum in foreign_key.attnums]
    parents = [parent.column(attnum) for attnum in foreign_key.parent_attnums]
    return await asyncio.to_thread(_find, session.gateway.data_path, child.table, columns, files, parents, gone)


def _find(  # noqa: PLR0917
    data_path: str,
    table: Table,
    columns: Sequence[Column],
    files: Sequence[LiveFile],
    of: Sequence[Column],
    gone: Gone,
) -> Found:
    """The rows of files of `table` that have one of the keys, which are made of columns like `of`. Blocking."""
    return find(data_path, table, columns, files, gone.keys, bounds_of(of, columns, gone.columns.columns))


async def _validate(  # noqa: PLR0917
    session: SessionContext,
    parent_oid: int,
    foreign_key: ForeignKey,
    gone: Gone,
    seen: Collection[int | None],
    said: Action,
) -> None:
    """At COMMIT: check that no row references a removed key, unless the key exists again. Rows of `seen` files, by ID,
    have been looked at: None stands for the transaction's own."""
    parent = await current(session, parent_oid, None)
    rest = await _without_present(session, parent, foreign_key, gone)
    if not len(rest.keys):
        return
    child = await current(session, foreign_key.child, None)
    files = [each for each in child.files if each.file.data_file_id not in seen]
    found = await _children(session, parent.table, foreign_key, rest, child, files)
    if len(found):
        row = rest.columns.slice(int(found.wanted[0]), 1)
        raise await _still_referenced(session, parent.table, child.table, foreign_key, said, row)


async def _still_referenced(  # noqa: PLR0917
    session: SessionContext, parent: Table, child: Table, foreign_key: ForeignKey, action: Action, row: pa.RecordBatch
) -> SluiceError:
    key = await described_key(session, parent, foreign_key.parent_attnums, row)
    restricted = action is Action.RESTRICT
    violates = "violates RESTRICT setting of foreign key" if restricted else "violates foreign key"
    verb = "referenced" if restricted else "still referenced"
    error = SluiceError(
        SqlState.RESTRICT_VIOLATION if restricted else SqlState.FOREIGN_KEY_VIOLATION,
        f'update or delete on table "{parent.name}" {violates} constraint "{foreign_key.name}" on table "{child.name}"',
        detail=f'Key {key} is {verb} from table "{child.name}".',
        schema=child.schema,
        table=child.name,
        constraint=foreign_key.name,
    )
    otherwise = f'Key is {verb} from table "{child.name}".'
    return await discreet(session, error, parent, foreign_key.parent_attnums, otherwise)
