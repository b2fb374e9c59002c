"""Which versions of lake tables a session sees: committed ones, and in a block those with its transaction's own
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from catalog.errors import SluiceError, SqlState
from catalog.model import DeleteFile, Table, TableVersion
from catalog.publish import RowChange, applied
from catalog.store import TableRules, rules_from_description, table_from_description
from gateway.backend import catalog_calls
from gateway.backend.analysis import SchemaMark
from gateway.backend.connection import Result
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.session.newest_versions import NewestVersions, newest_of
from gateway.transaction.enlistment import SchemaChangedError
from gateway.transaction.own_changes import OwnChange
from planner.plans.computable import functions_in
from storage.indexes.keys import LiveFile

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


async def lake_relations(session: SessionContext, oids: Iterable[int]) -> frozenset[int]:
    """Which of these relations are lake tables, including the transaction's own."""
    wanted = set(oids)
    # Tables that the transaction has used count, even if another session has dropped them since.
    found = await session.gateway.store.found_lake_relations(wanted) | wanted & session.transaction.enlistment.oids
    missing = wanted - found
    if missing and session.in_transaction:
        [result] = await session.backend.run(uncommitted(session, tuple(missing)), sync=session.simple)
        found |= {int(relid) for relid, *_ in result.rows if relid is not None}
    return found


def uncommitted(session: SessionContext, oids: Sequence[int]) -> Statement:
    """What to ask the backend for `versions`."""
    return catalog_calls.uncommitted(oids, session.transaction.own.marks(oids))


async def staged(session: SessionContext, oid: int) -> RowChange:
    """All changes that the transaction has staged for a table, as one."""
    [own] = await session.backend.run(uncommitted(session, [oid]))
    found = session.transaction.own.read(own.rows)
    return next((each.rows for each in found if each.rows is not None), RowChange(oid))


async def own_change(session: SessionContext, oid: int) -> OwnChange:
    """What the transaction has made of a table."""
    transaction = session.transaction
    if not transaction.open or transaction.fresh:
        return OwnChange(oid)
    if oid not in transaction.own.told:
        [answer] = await session.backend.run(uncommitted(session, [oid]))
        return next(iter(transaction.own.read(answer.rows)), OwnChange(oid))
    return transaction.own.told[oid]


async def versions(
    session: SessionContext,
    oids: Sequence[int],
    own: Sequence[OwnChange] | None = None,
    *,
    unread: int | None = None,
    newest: NewestVersions | None = None,
) -> dict[int, TableVersion]:
    """The versions of the tables that a statement of the session sees; `own` are the transaction's changes, if known.

    The statement reads no rows of the table `unread`: concurrent changes of it do not matter to SERIALIZABLE.
    """
    store, transaction = session.gateway.store, session.transaction
    parts = transaction.parts
    if parts is not None and all(oid in parts.versions for oid in oids):
        return {oid: parts.versions[oid] for oid in oids}
    snapshot = await transaction.visible_snapshot(tuple(oid for oid in oids if oid != unread))
    if snapshot is None:
        found = await newest_of(store, oids, newest)
    else:
        found = await store.versions_at(oids, snapshot)
        await _check_readable(session, [version.table for version in found.values()], snapshot)
    if not transaction.open or transaction.fresh:
        return found
    if own is None:
        [answer] = await session.backend.run(uncommitted(session, oids))
        own = transaction.own.read(answer.rows)
    for oid, description, rows in own:
        if description is not None:
            found[oid] = _described(found.get(oid), description)
        if rows is not None and oid in found:
            found[oid] = await _with_own(session, found[oid], rows)
    return found


async def _check_readable(session: SessionContext, tables: Sequence[Table], snapshot: int) -> None:
    """Raise 40001 if the snapshot's rows have no values for columns that the tables have now."""
    made = await session.gateway.store.columns_made_since([table.table_id for table in tables], snapshot)
    for table in tables:
        if table.table_id in made:
            raise SchemaChangedError(table.name, made[table.table_id])


def _described(version: TableVersion | None, description: Mapping[str, Any]) -> TableVersion:
    """The version with the description that the transaction itself has given the table."""
    table = table_from_description(description)
    return TableVersion(table, 0, ()) if version is None else replace(version, table=table)


async def _with_own(session: SessionContext, version: TableVersion, own: RowChange) -> TableVersion:
    """The version with the transaction's own files. If other sessions have deleted rows of the same data files, both
    delete files are merged into one, which is staged in place of the transaction's own.
    """
    seen, stale = applied(version, own)
    if not stale:
        return seen
    staged = await session.transaction.merge(version.table, [(file, mine, file.delete_file) for file, mine in stale])
    return applied(seen, staged)[0]


@dataclass(frozen=True, slots=True)
class Current:
    """A table as COMMIT would make it now, whatever snapshot the transaction reads.

    `snapshot` is the last that changed the table, `published` the IDs of the committed data files.
    """

    table: Table
    snapshot: int
    files: tuple[LiveFile, ...]

    @property
    def published(self) -> frozenset[int | None]:
        """The IDs of the committed data files."""
        return frozenset(each.file.data_file_id for each in self.files if each.file.data_file_id is not None)


async def current(
    session: SessionContext,
    oid: int,
    pending: RowChange | None,
    *,
    at: int | None = None,
    newest: NewestVersions | None = None,
) -> Current:
    """The committed table with the transaction's staged changes and `pending` ones, which are not staged yet.

    `at` is the snapshot to read in place of the newest.
    """
    store = session.gateway.store
    found = await newest_of(store, [oid], newest) if at is None else await store.versions_at([oid], at)
    version, own = found.get(oid), await own_change(session, oid)
    if own.description is not None:
        version = _described(version, own.description)
    changes = [] if own.rows is None else [own.rows]
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
    """One table as the session's next statement sees it."""
    parts, session.transaction.parts = session.transaction.parts, None
    try:
        return await latest(session, oid)
    finally:
        session.transaction.parts = parts


async def left_by_parts(session: SessionContext, version: TableVersion) -> TableVersion:
    """The visible rows of a table that no other part of the statement has changed or deleted."""
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


@dataclass(frozen=True, slots=True)
class Holding:
    """Statements that begin a savepoint, which holds the schemas of tables, and ask for their versions. `hold` reads
    the answers.
    """

    oids: Sequence[int]
    newest: NewestVersions | None
    asks_own: bool
    statements: Sequence[Statement]


def holding(session: SessionContext, *oids: int) -> Holding:
    """What to execute before rows of these tables are made."""
    transaction = session.transaction
    own = [uncommitted(session, oids)] if transaction.open and not transaction.fresh else []
    newest = NewestVersions.of(session, oids, told=bool(own))
    asked = [] if newest is None else [newest.statement]
    statements = (TRIAL.begin, catalog_calls.hold_schema(oids), *own, *asked)
    return Holding(oids, newest, bool(own), statements)


async def hold(
    session: SessionContext, held: Holding, answers: Sequence[Result], analysed_at: SchemaMark, now: SchemaMark
) -> dict[int, TableVersion]:
    """The tables for new rows, by OID; the savepoint that began with these answers holds their schemas."""
    oids, newest = held.oids, held.newest
    own: list[OwnChange] = []
    try:
        if held.asks_own:
            own = session.transaction.own.read(answers[-1 if newest is None else -2].rows)
            session.transaction.own.told = {oid: OwnChange(oid) for oid in oids} | {each.oid: each for each in own}
        if newest is not None:
            newest.take(answers[-1], own)
        found = await versions(session, oids, own, unread=oids[0] if len(oids) == 1 else None, newest=newest)
        await use(session, oids, found, analysed_at, now, {})
    except SchemaChangedError:
        await session.backend.run(*TRIAL.undo)
        raise
    return found


async def used(
    session: SessionContext, oid: int, analysed_at: SchemaMark, now: SchemaMark, *, read: bool = True
) -> TableVersion:
    """One table as a statement sees it, enlisted in the transaction; with `read`, rows are read too."""
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
    """Enlist these tables in these versions, and these views (gateway/transaction/enlistment.py)."""
    tables = {oid: version.table for oid, version in found.items()}
    enlistment, in_block = session.transaction.enlistment, session.transaction.open
    await enlistment.use(oids, tables, analysed_at, now, in_block=in_block)
    await enlistment.use_views(views, analysed_at, now, in_block=in_block)


async def rules(session: SessionContext, table: Table) -> TableRules:
    """The constraints and defaults of a table, with the transaction's own changes."""
    kept = await _rules(session, table)
    session.transaction.enlistment.confirm(table, kept.schema_version)
    return kept


def functions_of_rules(kept: TableRules, *, defaults: bool = False) -> frozenset[int]:
    """The user-defined functions that PostgreSQL runs for each new row: those of CHECKs, of generated columns, and of
    these `defaults`.
    """
    expressions = [check.expression for check in kept.checks]
    expressions += [text for attnum, text in kept.defaults.items() if defaults or attnum in kept.generated]
    return frozenset[int]().union(*map(functions_in, expressions))


async def _rules(session: SessionContext, table: Table) -> TableRules:
    own = await own_change(session, table.oid)
    if own.description is not None:
        return rules_from_description(own.description)
    return await session.gateway.store.rules(table.oid, table.schema_version)
