"""Makes array columns carried when they get values that Spark lacks: several dimensions, or lower bounds other than 1.

From then on the column's values are stored as texts, and PostgreSQL computes with them. Existing rows are rewritten
like for another type of the column; in a client's block, as part of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gateway.backend import catalog_calls
from gateway.backend.savepoints import TRIAL
from gateway.execution.reading.postgres_column import column_types
from gateway.execution.schema.alter_table import order_changes
from gateway.execution.schema.catch_up import until_little_is_left
from gateway.execution.schema.table_rewrite import Plan, Reorganisation, computed_columns
from gateway.session.visibility import latest
from gateway.statement.array_shapes import ArrayShapeError
from gateway.statement.statement_windows import take_place
from gateway.statement.window_rules import Place
from planner.syntax.lexer import quoted
from storage.plan import column_name

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.session.session_context import SessionContext
    from storage.spark.write import WriteResult


async def carry_arrays(session: SessionContext, unheld: ArrayShapeError, *, in_block: bool) -> None:
    """Make the columns carried; outside of a block, in a transaction of its own."""
    transaction = session.transaction
    await take_place(session, Place.SETTLED)
    await transaction.begin()
    transaction.fresh = False
    try:
        await _carry(session, unheld)
        if not in_block:
            await transaction.commit()
    except BaseException:
        if not in_block:
            await transaction.roll_back()
        raise


async def filled(
    session: SessionContext, version: TableVersion, fill: Callable[[TableVersion], Awaitable[WriteResult]]
) -> tuple[TableVersion, WriteResult]:
    """`fill` a table that the transaction has just made, with its columns carried if the rows need that."""
    while True:
        try:
            return version, await fill(version)
        except ArrayShapeError as unheld:
            if unheld.relid != version.table.oid:
                raise
            await carry_arrays(session, unheld, in_block=True)
            version = replace(version, table=(await latest(session, unheld.relid)).table)


async def _carry(session: SessionContext, unheld: ArrayShapeError) -> None:
    change = catalog_calls.carry_arrays(unheld.relid, unheld.names)
    await order_changes(session, unheld.relid)
    old = (await latest(session, unheld.relid)).table
    await session.backend.run(TRIAL.begin, change)
    columns, new = computed_columns(*await session.backend.run(catalog_calls.column_obligations(unheld.relid)))
    if not columns:
        await session.backend.run(TRIAL.release)
        return
    await session.backend.run(*TRIAL.undo)
    places = {column.attnum: column.attnum for column in columns}
    expressions = {column.attnum: quoted(column.name) for column in columns}
    types = await column_types(session, unheld.relid)
    types |= {column_name(column.attnum): column.type for column in columns}
    plan = Plan(None, old, "", places, expressions, may_be_asked=True, source=old, types=types)
    rewriting = Reorganisation(session, unheld.relid, columns, old, new, plans=[plan])
    try:
        await until_little_is_left(rewriting.catch_up)
        await session.backend.run(change)
        await rewriting.publish()
    except BaseException:
        await rewriting.discard()
        raise
