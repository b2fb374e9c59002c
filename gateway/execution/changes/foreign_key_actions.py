"""Executes ON DELETE and ON UPDATE actions: deletes referencing rows, or gives them other values.

Rows with new values go through the shadow, like rows of an INSERT: PostgreSQL computes defaults and generated columns,
and checks NOT NULL and CHECK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.constraints import Action
from catalog.datatypes import NUMERIC, VARCHAR
from catalog.errors import SluiceError
from catalog.model import Column, Table, TableVersion
from gateway.backend.connection import BackendLostError
from gateway.execution.changes.shadow_execution import one_array
from gateway.execution.constraints.foreign_key_referenced import Consequence, renewed, still_referenced
from gateway.execution.locks.row_locks import changed_meanwhile, strength_of
from gateway.execution.shadow.function_guard import guarding_functions
from gateway.execution.shadow.shadow import begin_shadow, put_as_owner, qualified, result_column, take_shadow_rows
from gateway.execution.shadow.trigger_bypass import bypass_triggers
from gateway.session.visibility import after_parts, functions_of_rules, rules
from gateway.values import OutputSettings, ResultColumn
from gateway.values.text import text_cells
from planner.syntax.lexer import quoted
from storage.indexes.keys import keys_of
from storage.parquet.file_rows import read_positions
from storage.spark.write import replace_rows

if TYPE_CHECKING:
    from gateway.execution.changes.row_changes import Changing


async def carry_out(changing: Changing, consequence: Consequence) -> None:
    """Change the referencing rows as part of the statement; their own consequences follow later."""
    session, foreign_key = changing.session, consequence.foreign_key
    while len(consequence.found):
        version = await after_parts(session, foreign_key.child)
        await session.transaction.enlistment.meet(version.table, changing.mark)
        rows = _Rows(consequence, version)
        with _quoting(consequence, version.table):
            new, assigned, sources = await _made(changing, consequence, version, rows)
        if consequence.action is Action.SET_DEFAULT and await asyncio.to_thread(
            _still, consequence, version.table, new
        ):
            raise await still_referenced(session, consequence, version.table)
        data_path = session.gateway.data_path
        with _quoting(consequence, version.table):
            hot_rows = session.transaction.hot_rows_max
            result = await asyncio.to_thread(replace_rows, data_path, version, rows.by_path, new, hot_rows)
            if await changing.claim(result, version, strength_of(version.table, assigned), sources=sources):
                await changing.wrote(result, version, assigned, sources=sources)
                return
        consequence = await renewed(session, consequence)


@contextmanager
def _quoting(consequence: Consequence, child: Table) -> Iterator[None]:
    """Errors inside quote the action's statement, as PostgreSQL's errors do."""
    try:
        yield
    except BackendLostError:
        raise
    except SluiceError as error:
        said = (error.fields.get("W"), f'SQL statement "{_as_sql(consequence, child)}"')
        error.fields["W"] = "\n".join(filter(None, said))
        raise


def _still(consequence: Consequence, child: Table, new: Sequence[pa.RecordBatch]) -> bool:
    """Whether rows that got their defaults reference the removed key again. Blocking."""
    columns = [child.column(attnum) for attnum in consequence.foreign_key.attnums]
    gone = consequence.gone.keys
    return any(
        pc.any(pc.is_in(keys_of(columns, [batch.column(column.name) for column in columns]).drop_null(), gone)).as_py()
        for batch in new
    )


def _as_sql(consequence: Consequence, child: Table) -> str:
    """The SQL by which PostgreSQL executes the action, as its errors quote it (ri_triggers.c)."""
    foreign_key, updates = consequence.foreign_key, consequence.gone.replaced is not None
    names = {attnum: quoted(child.column(attnum).name) for attnum in foreign_key.attnums}
    table = f"ONLY {qualified(child)}"
    assigned = foreign_key.attnums if updates else foreign_key.set_attnums
    first = 1
    if consequence.action is not Action.CASCADE:
        value = "NULL" if consequence.action is Action.SET_NULL else "DEFAULT"
        change = f"UPDATE {table} SET " + ", ".join(f"{names[attnum]} = {value}" for attnum in assigned)
    elif updates:
        change = f"UPDATE {table} SET " + ", ".join(f"{names[attnum]} = ${n}" for n, attnum in enumerate(assigned, 1))
        first += len(assigned)
    else:
        change = f"DELETE FROM {table}"
    conditions = []
    for n, (attnum, parent_attnum) in enumerate(
        zip(foreign_key.attnums, foreign_key.parent_attnums, strict=True), first
    ):
        types = child.column(attnum).type_oid, consequence.parent.column(parent_attnum).type_oid
        casts = [_cast(oid, types) for oid in types]
        conditions.append(f"${n}{casts[1]} OPERATOR(pg_catalog.=) {names[attnum]}{casts[0]}")
    return f"{change} WHERE {' AND '.join(conditions)}"


def _cast(type_oid: int, types: tuple[int, int]) -> str:
    """The cast from a column's type to that of the operator which compares the two."""
    if type_oid == VARCHAR:
        return "::pg_catalog.text"
    return '::pg_catalog."numeric"' if NUMERIC in types and type_oid != NUMERIC else ""


class _Rows:
    """The referencing rows in the order of their places: `by_path` has their positions, `wanted` the key that each
    references.
    """

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

    def places(self) -> pa.Table:
        """The place of each row, as an UPDATE's `WriteResult.sources`."""
        files = pa.array(np.repeat(list(self.by_path), [len(each) for each in self.by_path.values()]), pa.string())
        return pa.table({"file": files, "position": np.concatenate(list(self.by_path.values()))})


async def _made(
    changing: Changing, consequence: Consequence, version: TableVersion, rows: _Rows
) -> tuple[Sequence[pa.RecordBatch], Sequence[int] | None, pa.Table | None]:
    """The rows that replace the referencing ones, the columns that differ (None: no new rows), and the old row of
    each, if known.
    """
    foreign_key, action, session = consequence.foreign_key, consequence.action, changing.session
    data_path, table = session.gateway.data_path, version.table
    replaced = consequence.gone.replaced
    if action is Action.CASCADE and replaced is None:
        return (), None, None
    assigned = foreign_key.set_attnums if replaced is None else foreign_key.attnums
    kept = await rules(session, table)
    columns = [column for column in table.columns if column.attnum not in kept.generated]
    if action is Action.SET_DEFAULT:
        columns = [column for column in columns if column.attnum not in assigned]
    types = {column.attnum: result_column(column) for column in columns}
    if action is Action.CASCADE:
        parent = dict(zip(foreign_key.attnums, foreign_key.parent_attnums, strict=True))
        for attnum, parent_attnum in parent.items():
            column = consequence.parent.column(parent_attnum)
            types[attnum] = result_column(column)

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
    given = [types[column.attnum] for column in columns]
    await begin_shadow(session, table, *bypass_triggers([table]))
    functions = functions_of_rules(kept, defaults=action is Action.SET_DEFAULT)
    async with guarding_functions(session, functions, table):
        await put_as_owner(session, table, columns, given, batch, len(rows.wanted))
    made = await take_shadow_rows(session, table)
    paired = await asyncio.to_thread(_is_in_order, columns, given, batch, made)
    return made, assigned, rows.places() if paired else None


def _is_in_order(
    columns: Sequence[Column],
    given: Sequence[ResultColumn],
    batch: pa.RecordBatch,
    made: Sequence[pa.RecordBatch],
) -> bool:
    """Whether the rows from the shadow have the order of those that it was given. Blocking."""
    settings, rows = OutputSettings(), pa.Table.from_batches(made).combine_chunks()
    return all(
        text_cells(batch.column(place), each.type_oid, settings).equals(
            text_cells(one_array(rows, column), column.type_oid, settings)
        )
        for place, (column, each) in enumerate(zip(columns, given, strict=True))
    )
