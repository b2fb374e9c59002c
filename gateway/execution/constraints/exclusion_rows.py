"""Asks PostgreSQL which rows conflict by an EXCLUDE constraint (catalog/sql/exclusions.sql).

Few new rows go to it as values. Many go into a temporary table with the constraint's index, in a savepoint that is
undone. The rows that are there follow some at a time, so that memory holds no more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.constraints import Exclusion
from catalog.datatypes import TEXT
from catalog.model import Column, Table
from gateway.backend.arrays import number_array
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.reading.postgres_column import PLACE, temporary_tables
from gateway.execution.shadow.function_guard import guarding
from gateway.execution.shadow.shadow import cells_of, copy_rows, result_column
from gateway.session.cancel_listener import check
from gateway.values.binary import binary_array
from storage.indexes.keys import LiveFile, deleted_of
from storage.parquet.arrow_types import arrow_type
from storage.parquet.file_rows import read_rows
from storage.parquet.files import LakeFiles

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# Of more new rows PostgreSQL makes an index, rather than compare each with every row that is there.
_COMPARED_MAX: Final = 32
# Rows that are there, in one question.
_ROWS_TOGETHER: Final = 20_000
_TABLE: Final = f"{OWN}_excluded"
_OF_CONSTRAINT: Final = "$1::pg_catalog.int8::pg_catalog.oid, $2::pg_catalog.text, $3::pg_catalog.jsonb"
_CONFLICTS: Final = (
    f"SELECT fresh_place, standing_place FROM pg_sluice.exclusion_conflicts({_OF_CONSTRAINT}, $4::pg_catalog.text,"
    " $5::pg_catalog.text[], $6::pg_catalog.oid[], $7::pg_catalog.text, $8::pg_catalog.int4, $9::pg_catalog.text[],"
    " $10::pg_catalog.int4, $11::pg_catalog.text[])"
)
_DESCRIBED: Final = (
    f"SELECT d FROM pg_sluice.exclusion_described({_OF_CONSTRAINT}, ARRAY("
    "SELECT pg_catalog.pg_get_indexdef(k.conindid, n, true) FROM pg_catalog.pg_constraint k,"
    " pg_catalog.generate_series(1, pg_catalog.cardinality(k.conexclop)) n"
    " WHERE k.conrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid"
    " AND k.conname OPERATOR(pg_catalog.=) $2::pg_catalog.text AND k.contype OPERATOR(pg_catalog.=) 'x' ORDER BY n),"
    " $4::pg_catalog.text[], $5::pg_catalog.oid[], $6::pg_catalog.int4, $7::pg_catalog.text[]) d"
)
_MAKE: Final = "SELECT pg_sluice.make_exclusion_rows($1::pg_catalog.text, $2::pg_catalog.text[], $3::pg_catalog.oid[])"
_MAY_MAKE: Final = Statement("SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')")
_INDEX: Final = f"SELECT pg_sluice.index_exclusion_rows({_OF_CONSTRAINT}, $4::pg_catalog.text)"
_BINARY_CELLS: Final = (0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1)
_NO_CELLS: Final = binary_array(pa.array([], pa.string()), TEXT)


def deciding(table: Table, exclusion: Exclusion) -> list[Column]:
    """The columns that decide about conflicts; any other if there are none."""
    return [table.column(attnum) for attnum in exclusion.attnums] or list(table.columns[:1])


@dataclass(frozen=True, slots=True)
class Standing:
    """Rows that are there: their columns, and the place of each, as number of the file and position."""

    rows: pa.Table
    files: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]


def read_standing(
    data_path: str, table: Table, live: Sequence[LiveFile], columns: Sequence[Column]
) -> Iterator[Standing]:
    """Yield the live rows of files, some at a time. Blocking."""
    opened = LakeFiles(data_path)
    parts: list[tuple[int, npt.NDArray[np.int64], pa.RecordBatch]] = []
    count = 0
    for number, each in enumerate(live):
        deleted = deleted_of(opened, table, each)
        for first, batch in read_rows(opened, table, each.file, columns, rows_max=_ROWS_TOGETHER):
            positions = np.arange(first, first + batch.num_rows)
            stays = ~np.isin(positions, deleted)
            rows = batch if stays.all() else batch.filter(pa.array(stays))
            parts.append((number, positions[stays], rows))
            count += rows.num_rows
            if count >= _ROWS_TOGETHER:
                yield _joined(parts, columns)
                parts, count = [], 0
    if count:
        yield _joined(parts, columns)


def _joined(parts: Sequence[tuple[int, npt.NDArray[np.int64], pa.RecordBatch]], columns: Sequence[Column]) -> Standing:
    schema = pa.schema([(column.name, arrow_type(column.form)) for column in columns])
    rows = pa.Table.from_batches([batch.cast(schema) for _, _, batch in parts], schema).combine_chunks()
    files = np.concatenate([np.full(len(positions), number) for number, positions, _ in parts])
    return Standing(rows, files, np.concatenate([positions for _, positions, _ in parts]))


async def standing_aside(
    session: SessionContext, table: Table, live: Sequence[LiveFile], columns: Sequence[Column]
) -> AsyncIterator[Standing]:
    """`read_standing`, read in a thread."""
    parts = read_standing(session.gateway.data_path, table, live, columns)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        check(session)
        yield part


@dataclass(frozen=True, slots=True)
class Search:
    """New rows, as PostgreSQL has them: in the table `fresh`, or as `cells`."""

    session: SessionContext
    exclusion: Exclusion
    columns: Sequence[Column]
    fresh: str
    count: int
    cells: bytes

    async def among(self, *, earliest: bool = False) -> tuple[int, int] | None:
        """The first new row that conflicts with an earlier one, and that one, by their numbers; with `earliest`, the
        first one that conflicts with another."""
        pairs = await self._ask("earliest" if earliest else "later", None)
        return pairs[0] if pairs else None

    async def first(self, standing: pa.Table) -> tuple[int, int] | None:
        """The first new row that conflicts with a standing one, and that one, by their numbers."""
        pairs = await self._ask("first", standing)
        return pairs[0] if pairs else None

    async def every(self, standing: pa.Table) -> list[int]:
        """The numbers of all standing rows that conflict with a new one."""
        return [number for _, number in await self._ask("every", standing)]

    async def _ask(self, wanted: str, standing: pa.Table | None) -> list[tuple[int, int]]:
        names, types = _columns(self.columns)
        count, cells = 0, _NO_CELLS
        if standing is not None:
            count, cells = standing.num_rows, await _cells(self.columns, standing)
        new = (self.fresh, str(self.count), self.cells)
        parameters = (*_named(self.exclusion), wanted, names, types, *new, str(count), cells)
        asked = Statement(_CONFLICTS, parameters, parameter_formats=_BINARY_CELLS)
        async with _guarding(self.session, self.exclusion):
            [answer] = await self.session.backend.run(asked)
        return [(int(fresh or 0), int(there or 0)) for fresh, there in answer.rows]


@asynccontextmanager
async def searching(
    session: SessionContext, table: Table, exclusion: Exclusion, rows: pa.Table
) -> AsyncIterator[Search]:
    """Surrounds questions about new rows, of the columns `deciding`."""
    columns = deciding(table, exclusion)
    if rows.num_rows <= _COMPARED_MAX or not await _may_make_tables(session):
        yield Search(session, exclusion, columns, "", rows.num_rows, await _cells(columns, rows))
        return
    placed = [*columns, PLACE]
    names, types = _columns(placed)
    making = Statement(_MAKE, (_TABLE, names, types), parameter_formats=(0, 1, 0))
    numbers = pa.chunked_array([np.arange(rows.num_rows)])
    async with temporary_tables(session, making):
        await copy_rows(session, f"pg_temp.{_TABLE}", placed, rows.append_column(PLACE.name, numbers))
        async with _guarding(session, exclusion):
            await session.backend.run(Statement(_INDEX, (*_named(exclusion), _TABLE)))
        yield Search(session, exclusion, columns, f"pg_temp.{_TABLE}", 0, _NO_CELLS)


async def _may_make_tables(session: SessionContext) -> bool:
    [may] = await session.backend.run(_MAY_MAKE)
    return may.rows[0][0] == b"t"


async def described(session: SessionContext, table: Table, exclusion: Exclusion, rows: Sequence[pa.Table]) -> list[str]:
    """The keys of rows, each in a table of its own, as PostgreSQL's errors write them."""
    columns = deciding(table, exclusion)
    together = pa.concat_tables(rows)
    names, types = _columns(columns)
    parameters = (*_named(exclusion), names, types, str(together.num_rows), await _cells(columns, together))
    async with _guarding(session, exclusion):
        [answer] = await session.backend.run(Statement(_DESCRIBED, parameters, parameter_formats=(0, 0, 0, 1, 0, 0, 1)))
    return [(text or b"").decode() for (text,) in answer.rows]


def _named(exclusion: Exclusion) -> tuple[str, str, str | None]:
    return str(exclusion.table), exclusion.name, exclusion.parts


def _guarding(session: SessionContext, exclusion: Exclusion) -> AbstractAsyncContextManager[None]:
    """Refuse functions that read or write lake tables."""
    return guarding(session) if exclusion.calls else nullcontext()


def _columns(columns: Sequence[Column]) -> tuple[bytes, str]:
    """The names of columns, and their types as `cells_of` writes values."""
    types = map(result_column, columns)
    names = pa.array([column.name for column in columns], pa.string())
    return binary_array(names, TEXT), number_array(each.array_oid or each.type_oid for each in types)


async def _cells(columns: Sequence[Column], rows: pa.Table) -> bytes:
    return await asyncio.to_thread(cells_of, list(map(result_column, columns)), rows)
