"""Hands the rows of temporary tables to Spark, for queries that join them with lake tables.

So such a query may be over more lake rows than PostgreSQL would be given copies of, and may name the lake rows' ctid,
which copies do not have. The rows are read at the session's own backend, with the client's rights, and only of tables
that no other session sees. If the tables are large, or a relation is none of these, the reading stays as it was.
Columns of types that Spark does not know are left out.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import BY_OID, FIRST_USER_OID, INT8, TID
from catalog.errors import SluiceError, SqlState
from catalog.model import Column, Table
from gateway.backend.arrays import number_array
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.execution.shadow.shadow import binary_to_lake_form, rows_of_bodies
from planner.syntax.lexer import quoted
from planner.tree.references import relations, selected_columns
from storage.parquet.arrow_types import arrow_type
from storage.plan import column_name

if TYPE_CHECKING:
    from gateway.execution.reading.plan_context import Reading
    from gateway.session.session_context import SessionContext
    from planner.tree.nodes import Node

_BYTES_MAX: Final = 32 * 2**20
# The columns of those of these relations that are ordinary temporary tables of the session, all of their rows seen.
_COLUMNS: Final = f"""
SELECT c.oid::pg_catalog.int8, c.relname, a.attnum, a.attname, a.atttypid::pg_catalog.int8, a.atttypmod
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid
    AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped AND a.attgenerated OPERATOR(pg_catalog.<>) 'v'
WHERE c.oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[])
    AND c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
    AND c.relkind OPERATOR(pg_catalog.=) 'r' AND NOT c.relhassubclass AND NOT c.relrowsecurity
    AND pg_catalog.pg_table_size(c.oid) OPERATOR(pg_catalog.<=) {_BYTES_MAX}
ORDER BY c.oid, a.attnum
"""
# A column that each row has, beyond those that a table may have: a table without others has rows all the same.
_EACH: Final = Column(32_767, 32_767, "", INT8, -1, nullable=False)
# The number that stands for a tid (planner.functions.tids).
_NUMBER_OF_TID: Final = (
    "(pg_catalog.split_part(pg_catalog.btrim({0}::pg_catalog.text, '()'), ',', 1)::bigint OPERATOR(pg_catalog.*) 65536)"
    " OPERATOR(pg_catalog.+) pg_catalog.split_part(pg_catalog.btrim({0}::pg_catalog.text, '()'), ',', 2)::bigint"
)


async def with_temporary_tables(session: SessionContext, query: Node | None, reading: Reading) -> Reading:
    """The reading with the rows of the query's temporary tables, if all that is not in the lake are such tables."""
    assert query is not None
    beside = {oid for oid in relations(query) if oid not in reading.context.tables}
    if not beside or any(oid < FIRST_USER_OID for oid in beside):
        return reading
    tables = await _described(session, beside, query)
    if len(tables) != len(beside):
        return reading
    try:
        handed = {oid: await _rows(session, table) for oid, table in tables.items()}
    except BackendLostError:
        raise
    except SluiceError as error:
        if error.sqlstate != SqlState.FEATURE_NOT_SUPPORTED:
            raise
        return reading  # a value that Spark has no form for
    return replace(reading, context=replace(reading.context, handed=tables), handed=handed)


async def _described(session: SessionContext, oids: set[int], query: Node) -> dict[int, Table]:
    """The temporary tables among these relations, with the columns that the query reads and Spark knows."""
    [answer] = await session.backend.run(Statement(_COLUMNS, (number_array(sorted(oids)),)))
    read = selected_columns(query)
    names: dict[int, str] = {}
    columns: dict[int, list[Column]] = {}
    for row in answer.rows:
        relid, name, attnum, attname, type_oid, typmod = ((value or b"0").decode() for value in row)
        oid, number, kind = int(relid), int(attnum), int(type_oid)
        names[oid] = name
        found = columns.setdefault(oid, [])
        if (kind in BY_OID or kind == TID) and not {0, number}.isdisjoint(read.get(oid, ())):
            found.append(Column(number, number, attname, kind, int(typmod), nullable=True))
    return {oid: Table(oid, 0, "pg_temp", name, "", (*columns[oid], _EACH)) for oid, name in names.items()}


async def _rows(session: SessionContext, table: Table) -> pa.Table:
    """The rows, `c<attnum>` in lake form."""
    columns = tuple(replace(each, type_oid=INT8) if each.type_oid == TID else each for each in table.columns)
    values = [
        _NUMBER_OF_TID.format(quoted(each.name)) if each.type_oid == TID else quoted(each.name)
        for each in table.columns[:-1]
    ]
    sql = f"SELECT {', '.join([*values, '0::bigint'])} FROM ONLY pg_temp.{quoted(table.name)}"
    [result] = await session.backend.run(Statement(sql, result_format=1, bodies_only=True))
    schema = pa.schema([(column_name(column.attnum), arrow_type(column.form)) for column in columns])
    taken = replace(table, columns=columns)

    def convert() -> pa.Table:
        batches = [binary_to_lake_form(taken, batch) for batch in rows_of_bodies(schema.names, result.bodies)]
        return pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(batch.columns, names=schema.names).cast(schema) for batch in batches], schema
        )

    return await asyncio.to_thread(convert)
