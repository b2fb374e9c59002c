"""UPDATE and DELETE that Spark cannot compute: PostgreSQL carries them out in the shadow, over copied rows of the
target and of the tables beside it. Both have to be small; see `gateway.lake.rehearsal` for how the outcome is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.errors import SluiceError, unsupported
from catalog.model import TableVersion
from gateway.lake.computed import SMALL_ROWS, Computing, is_small
from gateway.lake.guarded import send_statement
from gateway.lake.rehearsal import Outcome, gone, has_key, load_all, paired, rehearse
from gateway.visibility import functions_of_rules, rules
from planner.computable import functions_of_users
from planner.nodes import Node
from planner.references import tables_read
from storage.write import WriteResult, replace_rows

if TYPE_CHECKING:
    from gateway.exchange import Exchange
    from gateway.lake.reading import Reading
    from gateway.portal import Binding

_UPDATE: Final = 2  # CmdType of nodes.h


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of the statement. `assigned` are the columns that an UPDATE sets, None for a DELETE; `sources` are
    those of `Changing.claim`."""

    outcome: Outcome
    result: WriteResult
    assigned: Collection[int] | None
    sources: pa.Table | None


async def computed_change(  # noqa: PLR0917
    session: Exchange, query: Node, version: TableVersion, reading: Reading, refusal: SluiceError, binding: Binding
) -> Changed:
    """Carry the statement out and write what came of it; raises `refusal` where that cannot be."""
    table, path = version.table, session.gateway.data_path
    if not is_small([version]):
        refusal.fields.setdefault("H", f"PostgreSQL computes it where the table has no more than {SMALL_ROWS} rows.")
        raise refusal
    if version != reading.versions[table.oid] and (table.oid in tables_read(query) or functions_of_users(query)):
        raise unsupported(f'changing table "{table.name}" twice in a statement that also reads it in this way')
    kept = await rules(session, table)
    assigned = _assigned(query, kept.generated)
    changes_keys = assigned is not None and any(not set(key.attnums).isdisjoint(assigned) for key in table.keys)
    noting = changes_keys or (assigned is not None and not has_key(table))
    columns = [column for column in table.columns if column.attnum not in kept.generated]
    beside = replace(reading, versions={oid: each for oid, each in reading.versions.items() if oid != table.oid})

    async def send() -> None:
        await send_statement(session, binding)

    async with Computing(session, query, beside, refusal, table.oid, made_by_users=True, once=True) as computing:
        loaded = await asyncio.to_thread(load_all, path, version)
        async with computing.watched(functions_of_rules(kept)):
            outcome = await rehearse(session, table, columns, loaded, send, noting=noting)
    replaced = await gone(table, loaded, outcome.kept)
    result = await asyncio.to_thread(replace_rows, path, version, replaced, [outcome.fresh])
    return Changed(outcome, result, assigned, await asyncio.to_thread(paired, table, loaded, outcome))


def _assigned(query: Node, generated: Collection[int]) -> Collection[int] | None:
    if int(query.commandType) != _UPDATE:
        return None
    return {int(target.resno) for target in query.targetList or () if not target.resjunk} | set(generated)
