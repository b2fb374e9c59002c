"""A query that locks rows of one small table, of which Spark cannot tell which: PostgreSQL chooses and locks them.

It does so in the shadow, over copies of the table's rows and of what the query reads beside; which of them it has
locked is read back, and those rows of the lake are locked then. Where somebody has changed any of them since the copies
were made, PostgreSQL chooses again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError
from gateway.analysis import UNDO
from gateway.kept_answers import KeptAnswers
from gateway.lake.computed import Computing, Locked, is_small
from gateway.lake.guarded import relay_rows, send_statement
from gateway.lake.rehearsal import begin, chosen_positions, load_all, rows_of
from gateway.lake.row_locks import Strength, Waiting, check_may_look_again, hold_rows
from gateway.lake.shadow import shadow_rows
from gateway.visibility import rules
from planner.computed_locking import locked_table
from planner.locking import STRENGTHS, WAITS

if TYPE_CHECKING:
    from gateway.exchange import Exchange
    from gateway.lake.reading import Reading
    from gateway.portal import Binding
    from planner.nodes import Node

_LOCKED: Final = "xmax <> '0'"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What PostgreSQL has answered, and how many rows that are."""

    answers: KeptAnswers
    count: int


async def rehearse_locks(
    session: Exchange, query: Node, reading: Reading, refusal: SluiceError, binding: Binding
) -> Chosen | None:
    """Lock the rows, and answer the query; `refusal` where that cannot be. None where it is to begin again."""
    wanted = locked_table(query)
    version = None if wanted is None else reading.versions.get(wanted.table_oid)
    if wanted is None or version is None or not is_small([version]):
        raise refusal
    table, kept = version.table, KeptAnswers(only_rows=True)
    generated = (await rules(session, table)).generated
    columns = [column for column in table.columns if column.attnum not in generated]
    beside = replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid != table.oid})
    locked = Locked({})
    async with Computing(session, query, beside, refusal, table.oid, made_by_users=True, locked=locked) as computing:
        loaded = await asyncio.to_thread(load_all, session.gateway.data_path, version)
        async with computing.watched():
            await begin(session, table, columns, loaded)
            await send_statement(session, binding)
            tag = await relay_rows(session, kept)
            [rows, *_] = await session.backend.run(shadow_rows(session, table, _LOCKED), *UNDO)
    session.gateway.store.undone_rows.left(table.oid, version.row_count)
    positions = await chosen_positions(table, loaded, rows_of(table, rows.bodies))
    strength, waiting = Strength(STRENGTHS[wanted.strength]), Waiting(WAITS[wanted.waiting])
    if not await hold_rows(session, positions, version, strength, waiting):
        check_may_look_again(session)
        kept.close()
        return None
    return Chosen(kept, int(tag.removeprefix("SELECT ")))
