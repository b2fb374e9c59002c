"""CREATE and REFRESH MATERIALIZED VIEW: PostgreSQL stores the view and its query, the lake its rows.

The shadow is made WITH NO DATA and stays empty. Spark, or else PostgreSQL over copied rows, computes the stored query,
and the rows are staged as new files in place of all old ones. So readers see the rows before or after, and never wait.
CONCURRENTLY compares them with the existing rows: missing rows are deleted by position, and only new ones are staged.
As in PostgreSQL, the query runs with the owner's privileges and `pg_catalog, pg_temp` as its search path. Concurrent
refreshes of one view run one after another.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import SluiceError, SqlState, unsupported
from catalog.model import Table, TableVersion
from catalog.publish import RowChange
from catalog.store import TableRules, table_from_description
from gateway.backend import catalog_calls
from gateway.backend.analysis import Analysis
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError, Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.insert_query import insert_rows
from gateway.execution.changes.row_changes import Changing
from gateway.execution.constraints.duplicate_rows import duplicate_row
from gateway.execution.constraints.unique_check import DuplicateKeyError, keep_keys
from gateway.execution.locks.row_locks import Strength
from gateway.execution.locks.table_locks import EXCLUSIVE, lock_tables
from gateway.execution.reading.function_tables import may_leave_effects
from gateway.execution.reading.plan_context import Reading, read
from gateway.execution.reading.postgres_query import IN_ONE_PROCESS, Computing
from gateway.execution.schema.array_carrying import filled
from gateway.execution.schema.create_as import make
from gateway.execution.schema.table_layout import lay_out
from gateway.execution.shadow.function_guard import CHANGES_OF_USERS, SCANS
from gateway.execution.shadow.shadow import qualified
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.cancel_listener import attending
from gateway.session.offload import offloaded
from gateway.session.statement_analysis import analysed
from gateway.session.visibility import lake_relations, used
from gateway.statement.portal import Binding, StatementPortal
from gateway.wire.messages.backend import CommandComplete
from planner.plans.computable import acting_functions, functions_of_users
from planner.plans.except_all import lacking
from planner.plans.routes import main_query
from planner.syntax.statements import table_as
from planner.tree.nodes import parse
from planner.tree.references import relations, runs_unseen, views
from storage.plan import (
    FILE_COLUMN,
    POSITION_COLUMN,
    BoundScan,
    RunnableDelete,
    RunnableInsert,
    RunnableQuery,
    Scan,
    column_name,
)
from storage.spark.write import WriteResult

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# A materialized view has neither constraints nor defaults.
_NO_RULES: Final = TableRules((), {}, frozenset(), frozenset())
_DESCRIBE: Final = "SELECT description::pg_catalog.text FROM pg_sluice.describe(ARRAY[$1::bigint::pg_catalog.oid])"
# Whether REFRESH is permitted, by matview.c (the index: is_usable_unique_index).
_ALLOWED: Final = """
SELECT c.relkind OPERATOR(pg_catalog.=) 'm' AND pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')
    AND (NOT $2::pg_catalog.bool OR (
    c.relispopulated AND NOT $3::pg_catalog.bool AND EXISTS (
        SELECT FROM pg_catalog.pg_index i
            WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid
            AND i.indpred IS NULL AND 0 OPERATOR(pg_catalog.<>) ALL (i.indkey::pg_catalog.int2[]))))
FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid
"""
# Which function of PostgreSQL refuses deferred triggers in REFRESH.
_FIRING: Final = "afterTriggerMarkEvents"
_VOLATILE: Final = "SELECT pg_sluice.volatile_functions($1::pg_catalog.oid[])"


class CreateMaterializedPortal(StatementPortal):
    """CREATE MATERIALIZED VIEW."""

    async def run(self) -> None:
        session, query = self.session, self.routed.query
        assert query is not None
        into = query.utilityStmt.into
        tag = "CREATE MATERIALIZED VIEW"
        async with Changing(self, tag) as changing:
            statement, in_block = (
                Statement(self.analysis.taken_apart(table_as).without_data),
                not session.transaction.implicit,
            )
            made = await make(
                session,
                self.analysis,
                statement,
                into.rel,
                if_not_exists=bool(query.utilityStmt.if_not_exists),
                in_block=in_block,
            )
            session.client.send(*made.notices)
            if made.oid is not None:
                await lay_out(session, made.oid, into.options)
            if made.oid is not None and not into.skipData:
                [described] = await session.backend.run(Statement(_DESCRIBE, (str(made.oid),)))
                text = described.rows[0][0]
                assert text is not None
                version = TableVersion(table_from_description(json.loads(text)), 0, ())
                tag = f"SELECT {await _fill(changing, version)}"
            await changing.finish()
        session.client.send(CommandComplete(tag))


class RefreshPortal(StatementPortal):
    """REFRESH MATERIALIZED VIEW."""

    async def run(self) -> None:
        session, query, [oid] = self.session, self.routed.query, self.routed.lake
        assert query is not None
        concurrently, no_data = bool(query.utilityStmt.concurrent), bool(query.utilityStmt.skipData)
        tag = "REFRESH MATERIALIZED VIEW"
        if session.transaction.deferred.pending:  # a session that waits for another REFRESH must not block others
            async with session.transaction.deferred.stepping_out():
                await session.backend.run(lock_tables([oid], EXCLUSIVE))
        async with Changing(self, tag, oid, mode=EXCLUSIVE) as changing:
            parameters = (str(oid), str(concurrently), str(no_data))
            [allowed] = await session.backend.run(Statement(_ALLOWED, parameters))
            if not allowed.rows or allowed.rows[0][0] != b"t":
                await session.backend.run(Statement(self.analysis.sql))  # PostgreSQL raises the error
                raise SluiceError(SqlState.INTERNAL_ERROR, "PostgreSQL refreshed a shadow")
            version = await used(session, oid, self.analysis.mark, changing.mark)
            if no_data:
                changing.add(RowChange(oid, truncate=True))
                await _populate(session, version.table, populated=False)
            elif concurrently:
                while not await _exchange(changing, version):
                    version = await used(session, oid, self.analysis.mark, changing.mark)
            else:
                await _fill(changing, version)
            await changing.finish()
        session.client.send(CommandComplete(tag))


async def _populate(session: SessionContext, table: Table, *, populated: bool) -> None:
    if table.populated != populated:
        await session.backend.run(catalog_calls.populate(table.oid, populated=populated))


async def _fill(changing: Changing, version: TableVersion) -> int:
    """Replace all rows by those of the view's query; return their number."""
    session = changing.session
    version, result = await filled(session, version, partial(_computed, session))
    table = version.table
    session.transaction.written.update(path.lstrip("/") for path in result.paths(table.path))
    change = RowChange(table.oid, result.data_files, truncate=True)
    try:
        await keep_keys(session, table, change, None, ())
    except DuplicateKeyError as error:
        raise error.of_index() from None
    changing.add(change)
    await _populate(session, table, populated=True)
    return result.row_count


async def _exchange(changing: Changing, version: TableVersion) -> bool:
    """Delete and insert only the rows that differ. False if the old files have been replaced meanwhile: it must be
    repeated.
    """
    session, table = changing.session, version.table
    engine, written = session.gateway.engine, session.transaction.written
    made = await _computed(session, version)
    try:
        fresh = replace(version, files=tuple(made.data_files))
        columns = tuple(column.attnum for column in table.columns)
        scans = tuple(
            BoundScan(Scan(name, table.oid, columns, needs_position=True), each)
            for name, each in (("there", version), ("made", fresh))
        )
        key = next(each.attnums for each in table.keys if each.public and not each.deferrable)
        gone = RunnableQuery(lacking(table, key, (FILE_COLUMN, POSITION_COLUMN), "there", "made"), scans)
        new = RunnableQuery(lacking(table, key, [*map(column_name, columns)], "made", "there"), scans)
        hot_rows = session.transaction.hot_rows_max
        async with attending(session):
            deleted = await engine.delete(RunnableDelete(gone, version, hot_rows), session.tag)
        if not await changing.claim(deleted, version, Strength.UPDATE):
            return False
        written.update(path.lstrip("/") for path in deleted.paths(table.path))
        async with attending(session):
            added = await engine.insert(RunnableInsert(new, table, hot_rows), session.tag)
        written.update(path.lstrip("/") for path in added.paths(table.path))
        if made.row_count - added.row_count != version.row_count - deleted.row_count:
            await _refuse_duplicates(session, fresh)  # one row stays, though several new ones equal it
        try:
            await changing.wrote(replace(deleted, data_files=added.data_files), version)
        except DuplicateKeyError:
            await _refuse_duplicates(session, fresh)
            raise
    finally:
        await engine.discard(made, table.path)
    return True


async def _refuse_duplicates(session: SessionContext, fresh: TableVersion) -> None:
    """Raise 21000 if new data has a duplicate row without NULLs."""
    row = await duplicate_row(session, fresh)
    if row is not None:
        raise SluiceError(
            SqlState.CARDINALITY_VIOLATION,
            f'new data for materialized view "{fresh.table.name}" contains duplicate rows without any null columns',
            detail=f"Row: {row}",
        ) from None


async def _computed(session: SessionContext, version: TableVersion) -> WriteResult:
    """The query's rows, written."""
    table = version.table
    if not table.columns:
        raise unsupported("a row without columns")
    owner, insert = await _stored_query(session, table)
    tree = await offloaded(session, insert.tree.size, parse, insert.tree)
    node = main_query(tree)
    assert node is not None
    read_oids = (oid for oid in relations(tree) if oid >= FIRST_USER_OID and oid != table.oid)
    lake = tuple(sorted(await lake_relations(session, read_oids)))
    if not lake:
        return await _alone(session, table, tree)
    reading = _as_owner(await read(session, insert, Binding(), lake, explain=False), owner)
    try:
        result, _ = await insert_rows(session, node, version, _NO_RULES, reading)
    except SluiceError as refusal:
        if refusal.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        refused = refusal
    else:
        return result
    async with ShadowWriter(session, table) as writer:
        async with Computing(
            session, node, reading, refused, made_by_users=True, counted=CHANGES_OF_USERS
        ) as computing:
            async with computing.watched():
                twin = await _twin(session, table)
            await writer.take(shadow=twin)
        return await writer.finish()


async def _stored_query(session: SessionContext, table: Table) -> tuple[str, Analysis]:
    """The view's owner, who may run its query, and the analysis of an INSERT of that, for Spark to carry out."""
    [_, made] = await session.backend.run(TRIAL.begin, catalog_calls.make_query(table.oid))
    query, name, owner = (b"" if value is None else value for value in made.rows[0])
    sql = f"INSERT INTO {qualified(table)} SELECT * FROM {name.decode()}"
    insert = await analysed(session, sql, name=OWN, sync=True)
    tree = await offloaded(session, insert.tree.size, parse, insert.tree)
    await _plainly(session, catalog_calls.check_as_owner(int(query)))
    await session.backend.run(*TRIAL.undo)
    insert.views = {oid: called for oid, called in views(tree).items() if oid != int(query)}
    return owner.decode(), insert


def _as_owner(reading: Reading, owner: str) -> Reading:
    """The settings under which the query runs: user and search path."""
    values = replace(reading.context.session, user=owner, schema="pg_catalog")
    return replace(reading, context=replace(reading.context, session=values))


async def _alone(session: SessionContext, table: Table, tree: Any) -> WriteResult:
    """For a query without lake tables: PostgreSQL makes the rows, in a savepoint that is undone."""
    builtins = session.gateway.builtins
    if runs_unseen(tree, builtins):
        await session.cursors.watch()
        session.run_functions()
    await _check_effects(session, tree)
    asked = SCANS, CHANGES_OF_USERS
    async with ShadowWriter(session, table) as writer:
        [_, _, *before] = await session.backend.run(TRIAL.begin, IN_ONE_PROCESS, *asked)
        twin = await _twin(session, table)
        after = await writer.take(*asked, *TRIAL.undo, shadow=twin)
        await session.cursors.check_unmoved()
        if after[0].rows != before[0].rows:
            raise unsupported("a function that reads a lake table")
        if after[1].rows != before[1].rows:
            raise _changing()
        return await writer.finish()


def _changing() -> SluiceError:
    return unsupported("a function that changes a table, in a materialized view")


async def _check_effects(session: SessionContext, tree: Any) -> None:
    """Raise 0A000 for VOLATILE functions that may do more than compute: their effects would not last."""
    acting, users = acting_functions(tree, session.gateway.builtins), functions_of_users(tree)
    [volatile] = await session.backend.run(Statement(_VOLATILE, (number_array(acting),)))
    name = volatile.rows[0][0]
    if name and (not acting <= users or await may_leave_effects(session, users)):
        raise unsupported(f"the volatile function {name.decode()}")


async def _twin(session: SessionContext, table: Table) -> int:
    """Have PostgreSQL compute the rows, inside a savepoint that will be undone; the OID of what has them."""
    made = await _plainly(session, catalog_calls.make_twin(table.oid))
    session.client.send(*made.notices)
    return int(made.rows[0][0] or 0)


async def _plainly(session: SessionContext, statement: Statement) -> Result:
    """Run a statement in which errors of the client's query look as if it stood alone."""
    try:
        [result] = await session.backend.run(statement)
    except BackendLostError:
        raise
    except SluiceError as error:
        for field in ("P", "W", "p", "q"):
            error.fields.pop(field, None)
        if error.fields.get("R") == _FIRING:  # shadows have deferred triggers
            raise _changing() from error
        raise
    return result
