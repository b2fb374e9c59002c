"""INSERT of rows that do not come from the lake (VALUES, generate_series, temporary tables): PostgreSQL makes them.

It inserts into the shadow, in a savepoint: defaults, identity, generated columns, CHECK, NOT NULL, lengths and
RETURNING are its own. The rows are read back from the shadow, the savepoint is undone, and they are written as
Parquet without Spark.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import BY_ARRAY_OID, BY_OID
from catalog.errors import unsupported
from catalog.model import Table
from gateway.analysis import UNDO
from gateway.backend import Statement
from gateway.copy import BinaryReader
from gateway.lake.changing import Changing
from gateway.lake.guarded import relay_statement
from gateway.messages.backend import CommandComplete
from gateway.portal import StatementPortal
from gateway.values import convert_binary
from gateway.visibility import hold
from planner.nodes import Node
from storage.parquet_writer import ParquetWriter
from storage.write import WriteResult

if TYPE_CHECKING:
    from gateway.exchange import Exchange

# COPY's binary signature, flags and header extension, and its end.
_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER: Final = b"\xff\xff"


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
            changing.wrote(await write_rows(session, version.table, rows), version)
            await changing.finish()
        session.client.send(CommandComplete(tag))


async def take_shadow_rows(session: Exchange, table: Table) -> list[pa.RecordBatch]:
    """The rows in the shadow, in lake form; afterwards the shadow is empty again (the savepoint undone)."""
    names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in table.columns)
    types = ", ".join(f"c{column.attnum} {_sql_type(column.type_oid)}" for column in table.columns)
    if not table.columns:
        raise unsupported("a row without columns")
    [result, *_] = await session.backend.run(
        Statement(
            f"SELECT * FROM pg_sluice.shadow_rows($1, $2::bigint::oid, $3) AS rows ({types})",
            (session.gateway.token, str(table.oid), names),
            result_format=1,
            bodies_only=True,
        ),
        *UNDO,
    )
    return await asyncio.to_thread(_to_lake_form, table, result.bodies)


def _sql_type(type_oid: int) -> str:
    element = BY_ARRAY_OID.get(type_oid)
    return f"pg_catalog.{element.name}[]" if element else f"pg_catalog.{BY_OID[type_oid].name}"


def _to_lake_form(table: Table, bodies: list[bytes]) -> list[pa.RecordBatch]:
    """A DataRow's body in binary is a tuple of COPY's binary format, so its reader serves here."""
    reader = BinaryReader([column.name for column in table.columns], table.name)
    batches = [*reader.feed(b"".join((_COPY_HEADER, *bodies, _COPY_TRAILER))), *reader.finish()]
    return [binary_to_lake_form(table, batch.fields) for batch in batches]


def binary_to_lake_form(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of PostgreSQL's binary values in lake form; a value that lake tables cannot hold is 0A000."""
    arrays = []
    for column, values in zip(table.columns, batch.columns, strict=True):
        converted = convert_binary(values, column.type_oid, column.typmod, from_postgres=True)
        if converted.refused is not None and converted.refused.true_count:
            raise unsupported(f'this value of column "{column.name}"')
        arrays.append(converted.array)
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])


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
