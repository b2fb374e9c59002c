"""What ON DELETE and ON UPDATE do to referring rows: delete them, or give them other values.

Rows that get other values go through the shadow, as those of an INSERT do: PostgreSQL computes defaults and generated
columns, and checks NOT NULL and CHECK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import Action
from catalog.model import Column, TableVersion
from gateway.lake.references import Consequence, renewed
from gateway.lake.row_locks import Strength, changed_meanwhile
from gateway.lake.shadow import through_shadow
from gateway.values import ResultColumn
from gateway.visibility import rules, versions
from storage.keys import read_positions
from storage.write import WriteResult, replace_rows

if TYPE_CHECKING:
    from gateway.lake.changing import Changing


async def carry_out(changing: Changing, consequence: Consequence) -> None:
    """Change the referring rows, as a part of the statement; their own constraints and referring rows follow."""
    session, foreign_key = changing.session, consequence.foreign_key
    while len(consequence.found):
        version = (await versions(session, [foreign_key.child]))[foreign_key.child]
        session.transaction.enlistment.meet(version.table, changing.mark)
        rows = _Rows(consequence, version)
        result, assigned = await _write(changing, consequence, version, rows)
        strength = Strength.UPDATE if assigned is None else Strength.NO_KEY_UPDATE
        if await changing.claim(result, version, strength):
            await changing.wrote(result, version, assigned)
            return
        consequence = await renewed(session, consequence)


class _Rows:
    """The referring rows in the order of their places: `by_path` their positions, `wanted` which key each refers to."""

    def __init__(self, consequence: Consequence, version: TableVersion) -> None:
        found = consequence.found
        order = np.lexsort((found.positions, found.file_numbers))
        numbers, positions = found.file_numbers[order], found.positions[order]
        self.wanted = found.wanted[order]
        self.by_path: dict[str, npt.NDArray[np.int64]] = {}
        known = {file.path for file in version.files}
        for number in np.unique(numbers):
            path = found.files[number].file.path
            if path not in known:
                raise changed_meanwhile()
            self.by_path[path] = positions[numbers == number]


async def _write(
    changing: Changing, consequence: Consequence, version: TableVersion, rows: _Rows
) -> tuple[WriteResult, Sequence[int] | None]:
    """What to stage, and the columns that it sets (None: the rows are gone)."""
    foreign_key, action, session = consequence.foreign_key, consequence.action, changing.session
    data_path, table = session.gateway.data_path, version.table
    replaced = consequence.gone.replaced
    if action is Action.CASCADE and replaced is None:
        return await asyncio.to_thread(replace_rows, data_path, version, rows.by_path), None
    assigned = foreign_key.set_attnums if replaced is None else foreign_key.attnums
    kept = await rules(session, table)
    columns = [column for column in table.columns if column.attnum not in kept.generated]
    if action is Action.SET_DEFAULT:
        columns = [column for column in columns if column.attnum not in assigned]
    types = {column.attnum: ResultColumn(column.type_oid, column.typmod) for column in columns}
    if action is Action.CASCADE:
        parent = dict(zip(foreign_key.attnums, foreign_key.parent_attnums, strict=True))
        for attnum, parent_attnum in parent.items():
            column = consequence.parent.column(parent_attnum)
            types[attnum] = ResultColumn(column.type_oid, column.typmod)

    def values() -> pa.RecordBatch:
        files = {file.path: file for file in version.files}
        old = pa.concat_tables(
            read_positions(data_path, table, files[path], columns, places) for path, places in rows.by_path.items()
        ).combine_chunks()
        arrays = [_value(column, old.column(place).combine_chunks()) for place, column in enumerate(columns)]
        return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])

    def _value(column: Column, old: pa.Array) -> pa.Array:
        if column.attnum not in assigned:
            return old
        if replaced is not None and action is Action.CASCADE:
            return replaced.column(foreign_key.attnums.index(column.attnum)).take(pa.array(rows.wanted))
        return pa.nulls(len(old), old.type)

    batch = await asyncio.to_thread(values)
    new = await through_shadow(session, table, columns, [types[column.attnum] for column in columns], batch)
    result = await asyncio.to_thread(replace_rows, data_path, version, rows.by_path, new)
    return result, assigned
