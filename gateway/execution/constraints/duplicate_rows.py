"""Finds duplicate rows for REFRESH MATERIALIZED VIEW CONCURRENTLY, which cannot distinguish them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from gateway.backend.own_statement import Statement
from gateway.values import OutputSettings
from gateway.values.text import text_cells
from storage.parquet.table_rows import live_rows_aside

if TYPE_CHECKING:
    from catalog.model import Table, TableVersion
    from gateway.session.session_context import SessionContext

_DIGEST_BYTES: Final = 16


async def duplicate_row(session: SessionContext, version: TableVersion) -> str | None:
    """The first duplicate row without NULLs, as PostgreSQL writes a row; None if there is none."""
    seen: set[bytes] = set()
    async for batch in live_rows_aside(session.gateway.data_path, version):
        for row in zip(*_cells(version.table, batch), strict=True):
            whole = [cell for cell in row if cell is not None]
            if len(whole) < len(row):
                continue
            lengths = ",".join(str(len(cell)) for cell in whole).encode()
            digest = hashlib.blake2b(b"".join((lengths, b":", *whole)), digest_size=_DIGEST_BYTES).digest()
            if digest in seen:
                return await _written(session, whole)
            seen.add(digest)
    return None


def _cells(table: Table, batch: pa.RecordBatch) -> list[list[bytes | None]]:
    """The columns as PostgreSQL's text: rows that it considers equal have the same text."""
    settings = OutputSettings()
    found = []
    for column, array in zip(table.columns, batch.columns, strict=True):
        texts = text_cells(array, column.type_oid, settings).to_pylist()
        found.append([text if valid else None for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)])
    return found


async def _written(session: SessionContext, cells: list[bytes]) -> str:
    listed = ", ".join(f"${number}::pg_catalog.text" for number in range(1, len(cells) + 1))
    [result] = await session.backend.run(
        Statement(f"SELECT ROW({listed})::pg_catalog.text", tuple(cell.decode() for cell in cells))
    )
    value = result.rows[0][0]
    assert value is not None
    return value.decode()
