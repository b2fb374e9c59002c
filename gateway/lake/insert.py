"""INSERT of rows that do not come from the lake (VALUES, generate_series, temporary tables): PostgreSQL makes them.

It inserts into the shadow, in a savepoint: defaults, identity, generated columns, CHECK, NOT NULL, lengths and
RETURNING are its own. The rows are read back from the shadow, the savepoint is undone, and they are written as
Parquet without Spark.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.model import Table
from gateway.lake.changing import Changing
from gateway.lake.guarded import relay_statement
from gateway.lake.shadow import take_shadow_rows
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.visibility import hold
from planner.nodes import Node
from storage.parquet_writer import ParquetWriter
from storage.write import WriteResult

if TYPE_CHECKING:
    from gateway.exchange import Exchange


def target_oid(query: Node) -> int:
    """The OID of the table that the statement changes."""
    return int(query.rtable[int(query.resultRelation) - 1].relid)


class InsertRowsPortal(StatementPortal):
    """Rows that PostgreSQL makes and validates; those of RETURNING go straight from it to the client."""

    async def run(self) -> None:
        session = self.session
        assert self.routed.query is not None
        target = target_oid(self.routed.query)
        async with Changing(self, "INSERT", target) as changing:
            version = await hold(session, target, self.analysis.mark, changing.mark)
            tag = await relay_statement(session, self.binding)
            rows = await take_shadow_rows(session, version.table)
            await changing.wrote(await write_rows(session, version.table, rows), version)
            await changing.finish()
        session.client.send(CommandComplete(tag))


async def write_rows(session: Exchange, table: Table, batches: list[pa.RecordBatch]) -> WriteResult:
    """Validated rows as Parquet, without Spark."""

    def write() -> WriteResult:
        writer = ParquetWriter(session.gateway.data_path, table)
        try:
            for batch in batches:
                writer.write(batch)
            files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return WriteResult(data_files=files, row_count=sum(file.record_count for file in files))

    return await asyncio.to_thread(write)
