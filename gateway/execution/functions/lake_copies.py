"""Copies rows of a lake table into its shadow, for functions to read and change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.errors import unsupported
from gateway.execution.shadow.shadow import copy_rows, put_rows, qualified, runs_checks
from gateway.session.cancel_listener import check
from gateway.session.visibility import rules
from storage.parquet.table_rows import live_rows_aside

if TYPE_CHECKING:
    from catalog.model import TableVersion
    from gateway.execution.shadow.loaded_rows import Loaded
    from gateway.session.session_context import SessionContext


async def copy_to_shadow(
    session: SessionContext, version: TableVersion, found: Loaded | None, *, may_copy: bool
) -> None:
    """Copy the rows `found`, or all live ones; as the client if it `may_copy`, else as the table's owner."""
    table = version.table
    generated = (await rules(session, table)).generated
    columns = [column for column in table.columns if column.attnum not in generated]
    names = [column.name for column in columns]
    if not names and version.row_count:
        raise unsupported("a function that reads rows without columns")
    async for batch in _batches(session, version, found):
        check(session)
        session.gateway.store.undone_rows.left(table.oid, batch.num_rows)
        if may_copy and not runs_checks(columns):
            await copy_rows(session, qualified(table), columns, batch.select(names))
        else:
            await put_rows(session, table, columns, batch.select(names))


async def _batches(
    session: SessionContext, version: TableVersion, found: Loaded | None
) -> AsyncIterator[pa.RecordBatch]:
    if found is not None:
        for batch in found.rows.to_batches():
            yield batch
        return
    async for batch in live_rows_aside(session.gateway.data_path, version):
        yield batch
