"""What a session sees of the lake: what is committed, and in a block what its own transaction has made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catalog.errors import SluiceError, SqlState
from catalog.model import DeleteFile, Table, TableVersion
from catalog.publish import RowChange, applied, change_from_json
from catalog.store import TableRules, rules_from_description, table_from_description
from gateway.backend import catalog_calls
from gateway.backend.analysis import SchemaMark
from gateway.backend.connection import Result, Statement
from gateway.backend.savepoints import TRIAL
from gateway.transaction.enlistment import SchemaChangedError
from planner.plans.computable import functions_in
from storage.indexes.keys import LiveFile

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


async def lake_relations(session: SessionContext, oids: Iterable[int]) -> frozenset[int]:
    """Which of these relations are lake tables, the transaction's own among them."""
    wanted = set(oids)
    # What the transaction has used was of the lake, even where somebody has dropped it since.
    found = await session.gateway.store.found_lake_relations(wanted) | wanted & session.transaction.enlistment.oids
    missing = wanted - found
    if missing and session.in_transaction:
        [result] = await session.backend.run(uncommitted(tuple(missing)), sync=session.simple)
        found |= {int(relid) for relid, *_ in result.rows if relid is not None}
    return found


def uncommitted(oids: Sequence[int]) -> Statement:
    """What to ask the backend for `versions`."""
    return catalog_calls.uncommitted(oids)


async def staged(session: SessionContext, oid: int) -> RowChange:
    """What the transaction has staged for a table so far, as one change."""
    [own] = await session.backend.run(uncommitted([oid]))
    found = [change for _, _, change in own.rows if change is not None]
    return change_from_json(json.loads(found[0])) if found else RowChange(oid)


async def versions(
    session: SessionContext, oids: Sequence[int], own: Result | None = None, *, unread: int | None = None
) -> dict[int, TableVersion]:
    """The tables as a statement of the session sees them; `own` is the answer to `uncommitted`, where it is at hand.

    Of the table that is `unread` the statement asks for no rows: what others do to it does not matter to SERIALIZABLE.
    """
    store, transaction = session.gateway.store, session.transaction
    parts = transaction.parts
    if parts is not None and all(oid in parts.versions for oid in oids):
        return {oid: parts.versions[oid] for oid in oids}
    snapshot = await transaction.visible_snapshot(tuple(oid for oid in oids if oid != unread))
    found = await store.versions(oids) if snapshot is None else await store.versions_at(oids, snapshot)
    if snapshot is not None:
        await _check_readable(session, [version.table for version in found.values()], snapshot)
    if not transaction.open or transaction.fresh:
        return found
    if own is None:
        [own] = await session.backend.run(uncommitted(oids))
    for relid, description, change in own.rows:
        assert relid is not None
        oid = int(relid)
        if description is not None:
            found[oid] = _described(found.get(oid), description)
        if change is not None and oid in found:
            found[oid] = await _with_own(session, found[oid], json.loads(change))
    return found


async def _check_readable(session: SessionContext, tables: Sequence[Table], snapshot: int) -> None:
    """40001 where the rows of a transaction's snapshot have no values of columns that the tables have by now."""
    made = await session.gateway.store.columns_made_since([table.table_id for table in tables], snapshot)
    for table in tables:
        if table.table_id in made:
            raise SchemaChangedError(table.name, made[table.table_id])


def _described(version: TableVersion | None, description: bytes) -> TableVersion:
    """The version under the description that the transaction itself has given the table."""
    table = table_from_description(json.loads(description))
    return TableVersion(table, 0, ()) if version is None else replace(version, table=table)


async def _with_own(session: SessionContext, version: TableVersion, change: dict[str, Any]) -> TableVersion:
    """The version with the transaction's own files. Where others have deleted rows of the same data files since, both
    delete files become one, which is staged in place of the transaction's own."""
    seen, stale = applied(version, change_from_json(change))
    if not stale:
        return seen
    staged = await session.transaction.merge(version.table, [(file, own, file.delete_file) for file, own in stale])
    return applied(seen, staged)[0]


@dataclass(frozen=True, slots=True)
class Current:
    """A table as it would be if the transaction committed now, whatever snapshot it reads.

    `snapshot` is the last that changed the table, `published` the IDs of the committed data files.
    """

    table: Table
    snapshot: int
    files: tuple[LiveFile, ...]

    @property
    def published(self) -> frozenset[int | None]:
        """The IDs of the data files that are committed."""
        return frozenset(each.file.data_file_id for each in self.files if each.file.data_file_id is not None)


async def current(session: SessionContext, oid: int, pending: RowChange | None, *, at: int | None = None) -> Current:
    """What is committed, with what the transaction has staged, and `pending`, which is not staged yet.

    `at` is the snapshot that is looked at in place of the newest.
    """
    transaction = session.transaction
    changes: list[RowChange] = []
    store = session.gateway.store
    version = (await store.versions([oid]) if at is None else await store.versions_at([oid], at)).get(oid)
    if transaction.open and not transaction.fresh:
        [own] = await session.backend.run(uncommitted([oid]))
        for _, description, change in own.rows:
            if description is not None:
                version = _described(version, description)
            if change is not None:
                changes.append(change_from_json(json.loads(change)))
    if version is None:
        raise _dropped()
    if pending is not None:
        changes = [pending] if pending.truncate else [*changes, pending]
    files = [] if any(change.truncate for change in changes) else list(version.files)
    deletes: dict[str, tuple[DeleteFile, ...]] = {
        file.path: () if file.delete_file is None else (file.delete_file,) for file in files
    }
    for each in changes:
        files += each.data_files
        for deletion in each.deleted:
            deletes[deletion.data_path] = (*deletes.get(deletion.data_path, ()), deletion.file)
    live = tuple(LiveFile(file, deletes.get(file.path, ())) for file in files)
    return Current(version.table, version.snapshot_id, live)


def _dropped() -> SluiceError:
    return SluiceError(SqlState.UNDEFINED_TABLE, "the table was dropped meanwhile")


async def after_parts(session: SessionContext, oid: int) -> TableVersion:
    """One table as the session's next statement would see it."""
    parts, session.transaction.parts = session.transaction.parts, None
    try:
        return await latest(session, oid)
    finally:
        session.transaction.parts = parts


async def left_by_parts(session: SessionContext, version: TableVersion) -> TableVersion:
    """Of the rows that a statement sees of a table, those that no other part of it has changed or deleted."""
    if session.transaction.parts is None:
        return version
    own = {each.data_path: each.file for each in (await staged(session, version.table.oid)).deleted}
    files = (replace(file, delete_file=own.get(file.path, file.delete_file)) for file in version.files)
    return replace(version, files=tuple(files))


async def latest(session: SessionContext, oid: int) -> TableVersion:
    """One table as a statement of the session sees it."""
    version = (await versions(session, [oid])).get(oid)
    if version is None:
        raise _dropped()
    return version


def holding(session: SessionContext, oid: int) -> list[Statement]:
    """Begin a savepoint in which a table's schema stays as it is. `hold` takes the answers."""
    transaction = session.transaction
    own = [uncommitted([oid])] if transaction.open and not transaction.fresh else []
    return [TRIAL.begin, catalog_calls.hold_schema([oid]), *own]


async def hold(
    session: SessionContext, oid: int, answers: Sequence[Result], analysed_at: SchemaMark, now: SchemaMark
) -> TableVersion:
    """Use one table for new rows, which the savepoint holds in its schema that began with these answers."""
    *_, own = answers
    try:
        found = await versions(session, [oid], own, unread=oid)
        await use(session, [oid], found, analysed_at, now, {})
    except SchemaChangedError:
        await session.backend.run(*TRIAL.undo)
        raise
    return found[oid]


async def used(
    session: SessionContext, oid: int, analysed_at: SchemaMark, now: SchemaMark, *, read: bool = True
) -> TableVersion:
    """One table as a statement of the session sees it, which uses it, if not to `read` it."""
    found = await versions(session, [oid], unread=None if read else oid)
    await use(session, [oid], found, analysed_at, now, {})
    return found[oid]


async def use(  # noqa: PLR0917
    session: SessionContext,
    oids: Sequence[int],
    found: Mapping[int, TableVersion],
    analysed_at: SchemaMark,
    now: SchemaMark,
    views: Mapping[int, str],
) -> None:
    """A statement uses these tables in the versions found, and these views (gateway/transaction/enlistment.py)."""
    tables = {oid: version.table for oid, version in found.items()}
    enlistment, in_block = session.transaction.enlistment, session.transaction.open
    await enlistment.use(oids, tables, analysed_at, now, in_block=in_block)
    await enlistment.use_views(views, analysed_at, now, in_block=in_block)


async def rules(session: SessionContext, table: Table) -> TableRules:
    """The constraints and defaults of a table, as the session's transaction has made them."""
    kept = await _rules(session, table)
    session.transaction.enlistment.confirm(table, kept.schema_version)
    return kept


def functions_of_rules(kept: TableRules, *, defaults: bool = False) -> frozenset[int]:
    """The functions made by users that PostgreSQL runs for each row that comes into a table: its CHECKs', those of its
    generated columns, and where it is to fill in `defaults`, of these."""
    expressions = [check.expression for check in kept.checks]
    expressions += [text for attnum, text in kept.defaults.items() if defaults or attnum in kept.generated]
    return frozenset[int]().union(*map(functions_in, expressions))


async def _rules(session: SessionContext, table: Table) -> TableRules:
    if session.transaction.open and not session.transaction.fresh:
        [own] = await session.backend.run(uncommitted([table.oid]))
        for _, description, _ in own.rows:
            if description is not None:
                return rules_from_description(json.loads(description))
    return await session.gateway.store.rules(table.oid, table.schema_version)
