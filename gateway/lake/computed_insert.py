"""INSERT of a query that Spark cannot compute, or over few rows: PostgreSQL carries it out in the shadow, over copied
rows of the tables that the query reads. Defaults, identity, CHECK and RETURNING are then its own too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from catalog.model import Table
from gateway.enlistment import hold_schema
from gateway.kept_answers import KeptAnswers
from gateway.lake.computed import Computing
from gateway.lake.rehearsal import loaded_mark, made
from gateway.lake.shadow_writer import ShadowWriter
from planner.nodes import Node
from planner.references import tables_read
from storage.write import WriteResult

if TYPE_CHECKING:
    from gateway.exchange import Exchange
    from gateway.lake.placed import Placed
    from gateway.lake.reading import Reading


@dataclass(frozen=True, slots=True)
class Made:
    """What came of the statement: its answers to the client, its tag, and the rows that it made, written."""

    answers: KeptAnswers
    tag: str
    result: WriteResult


def what_is_read(query: Node, reading: Reading) -> Reading:
    """The reading without the table that rows are only inserted into."""
    read = tables_read(query)
    return replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid in read})


async def computed_insert(  # noqa: PLR0917
    session: Exchange,
    query: Node,
    table: Table,
    reading: Reading,
    refusal: SluiceError,
    carry_out: Callable[[KeptAnswers], Awaitable[str]],
    of_rules: frozenset[int] = frozenset(),
    where: Placed | None = None,
) -> Made:
    """The rows that an INSERT makes of the query. `carry_out` lets the backend do so and returns the tag; `of_rules`
    are the functions of users that it runs for the table's rules; `where`: see `Computing`."""
    kept, only_read = KeptAnswers(), what_is_read(query, reading)
    async with ShadowWriter(session, table) as writer:
        target = None if where is None else table.oid
        async with Computing(session, query, only_read, refusal, target, made_by_users=True, placed=where) as computing:
            await session.backend.run(hold_schema([table.oid]))
            mark = await loaded_mark(session, table)
            async with computing.watched(of_rules):
                tag = await carry_out(kept)
            await writer.take(condition=made(mark))
        return Made(kept, tag, await writer.finish())
