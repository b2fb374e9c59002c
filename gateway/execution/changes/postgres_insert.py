"""INSERT … SELECT that PostgreSQL executes in the shadow, over copied rows of the tables that the query reads.

It serves queries that Spark cannot compute, or over few rows. Defaults, identity, CHECK and RETURNING are then
PostgreSQL's too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from catalog.model import Table
from gateway.backend import catalog_calls
from gateway.execution.changes.shadow_execution import loaded_mark, made
from gateway.execution.reading.postgres_query import Computing
from gateway.execution.shadow.shadow_writer import ShadowWriter
from gateway.session.response_spool import ResponseSpool
from planner.tree.nodes import Node
from planner.tree.references import tables_read
from storage.spark.write import WriteResult

if TYPE_CHECKING:
    from gateway.execution.reading.handed_rows import Placed
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext


@dataclass(frozen=True, slots=True)
class Made:
    """The statement's answers to the client, its tag, and its rows, written."""

    answers: ResponseSpool
    tag: str
    result: WriteResult


def what_is_read(query: Node, reading: Reading) -> Reading:
    """The reading without the table that rows are only inserted into."""
    read = tables_read(query)
    return replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid in read})


async def computed_insert(  # noqa: PLR0917
    session: SessionContext,
    query: Node,
    table: Table,
    reading: Reading,
    refusal: SluiceError,
    carry_out: Callable[[ResponseSpool], Awaitable[str]],
    of_rules: frozenset[int] = frozenset(),
    where: Placed | None = None,
) -> Made:
    """The rows that an INSERT makes of the query. `carry_out` lets the backend execute it and returns the tag;
    `of_rules` are the user-defined functions of the table's rules; `where`: see `Computing`.
    """
    kept, only_read = ResponseSpool(), what_is_read(query, reading)
    async with ShadowWriter(session, table) as writer:
        target = None if where is None else table.oid
        async with Computing(session, query, only_read, refusal, target, made_by_users=True, placed=where) as computing:
            await session.backend.run(catalog_calls.hold_schema([table.oid]))
            mark = await loaded_mark(session, table)
            async with computing.watched(of_rules):
                tag = await carry_out(kept)
            await writer.take(condition=made(mark))
        return Made(kept, tag, await writer.finish())
