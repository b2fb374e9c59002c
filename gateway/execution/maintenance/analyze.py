"""ANALYZE of a lake table: fills pg_class and pg_stats of the shadow from a sample of the lake.

Spark takes the sample, PostgreSQL's own ANALYZE computes its statistics. The number of distinct values is estimated
from the sample as in PostgreSQL (analyze.c, compute_scalar_stats: Haas and Stokes, Duj1).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SluiceError, SqlState
from catalog.postgres.column_statistics import STATISTICS, column_statistics
from gateway.backend.own_statement import Statement
from gateway.session.visibility import latest
from gateway.values import OutputSettings
from gateway.values.text import text_cells
from storage.plan import BoundScan, RunnableQuery, Scan, column_name

if TYPE_CHECKING:
    from catalog.model import Column, TableVersion
    from gateway.session.session_context import SessionContext

# 300 rows for each of 100 entries, PostgreSQL's default_statistics_target (analyze.c).
SAMPLE_ROWS: Final = 30_000
_SAMPLE_BYTES_MAX: Final = 32 * 2**20
_PAGE_BYTES: Final = 8192
# As in PostgreSQL, a count of distinct values above this share of the rows is stored as a share.
_SHARE_MIN: Final = 0.1
_RELATION: Final = """
SELECT pg_catalog.pg_restore_relation_stats('schemaname', $1::pg_catalog.text, 'relname', $2::pg_catalog.text,
    'relpages', $3::integer, 'reltuples', $4::real, 'relallvisible', 0, 'relallfrozen', 0)
"""
_CLEAR: Final = (
    "SELECT pg_catalog.pg_clear_attribute_stats($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, false)"
)
_ATTRIBUTE: Final = (
    "SELECT pg_catalog.pg_restore_attribute_stats('schemaname', $1::pg_catalog.text, 'relname',"
    " $2::pg_catalog.text, 'attname', $3::pg_catalog.text,"
    " 'inherited', false, "
    + ", ".join(f"'{name}', ${number}::{kind}" for number, (name, kind) in enumerate(STATISTICS, 4))
    + ")"
)


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The number of rows in the table and in the sample."""

    rows: int
    sampled: int


async def analyze(session: SessionContext, oid: int, columns: Sequence[str]) -> Analyzed:
    """Store the statistics of these columns (all if none are given), and the table's size, in the catalog."""
    version = await note_size(session, oid)
    table, rows = version.table, version.row_count
    wanted = [column for column in table.columns if not columns or column.name in columns]
    sample = await _sample(session, version, wanted, rows) if rows and wanted else None
    if sample is None:
        return Analyzed(rows, 0)
    for column, array in zip(wanted, sample.columns, strict=True):
        cells = await asyncio.to_thread(_text, column, array)
        counted = pc.index_in(cells, pa.array([label.text for label in column.labels])) if column.labels else cells
        found = await column_statistics(session.gateway.store.pool, column, counted.cast(pa.string()).to_pylist())
        if not found:
            continue
        if found["n_distinct"] is not None:
            found["n_distinct"] = str(distinct(cells, rows))
        named = (table.schema, table.name, column.name)
        values = tuple(found[name] for name, _ in STATISTICS)
        [_, restored] = await session.backend.run(Statement(_CLEAR, named), Statement(_ATTRIBUTE, (*named, *values)))
        if restored.rows[0][0] != b"t":
            said = "; ".join(dict(notice.fields)["M"] for notice in restored.notices)
            raise SluiceError(SqlState.INTERNAL_ERROR, f'statistics of column "{column.name}" were not taken: {said}')
    return Analyzed(rows, sample.num_rows)


async def note_size(session: SessionContext, oid: int) -> TableVersion:
    """Store the table's size in pg_class, as VACUUM does too; return the present table."""
    with session.transaction.reading_newest():
        version = await latest(session, oid)
    size = sum(file.size_bytes for file in version.files)
    pages = min(math.ceil(size / _PAGE_BYTES), 2**31 - 1)
    named = (version.table.schema, version.table.name)
    await session.backend.run(Statement(_RELATION, (*named, str(pages), str(version.row_count))))
    return version


async def _sample(session: SessionContext, version: TableVersion, columns: Sequence[Column], rows: int) -> pa.Table:
    """A sample of rows, in their order."""
    scan = Scan("sampled", version.table.oid, tuple(column.attnum for column in columns))
    listed = ", ".join(column_name(column.attnum) for column in columns)
    some = f" WHERE rand(0) < {SAMPLE_ROWS / rows!r}" if rows > SAMPLE_ROWS else ""
    query = RunnableQuery(f"SELECT {listed} FROM sampled{some}", (BoundScan(scan, version),))
    batches: list[pa.RecordBatch] = []
    async with await session.gateway.engine.stream(query, session.tag) as stream:
        async for batch in stream:
            batches.append(batch)  # noqa: PERF401  as they come
        sample = pa.Table.from_batches(batches, stream.schema)
    if sample.nbytes > _SAMPLE_BYTES_MAX:
        step = math.ceil(sample.nbytes / _SAMPLE_BYTES_MAX)
        sample = sample.take(pa.array(range(0, sample.num_rows, step)))
    return sample.combine_chunks()


def _text(column: Column, array: pa.ChunkedArray) -> pa.Array:
    """PostgreSQL's text of the values."""
    whole = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    cells = text_cells(whole, column.type_oid, OutputSettings()).cast(pa.string())
    return pc.if_else(whole.is_valid(), cells, pa.scalar(None, pa.string()))  # cells of NULLs have arbitrary content


def distinct(cells: pa.Array, rows: int) -> float:
    """pg_stats.n_distinct of a column of `rows` values, estimated from the sample."""
    values = cells.drop_null()
    sampled = len(values)
    counts = pc.value_counts(values).field("counts")
    found, once = len(counts), pc.sum(pc.equal(counts, 1)).as_py() or 0
    if not sampled:
        return 0.0
    present = rows * sampled / len(cells)
    if once == sampled and sampled < rows:
        return -present / rows
    estimate = sampled * found / (sampled - once + once * sampled / present)
    estimate = math.floor(min(max(estimate, found), present) + 0.5)
    return -estimate / rows if estimate > _SHARE_MIN * rows else float(estimate)
