"""Whether few rows repeat a key, as PostgreSQL finds it when it builds an index: over copied rows, in their order.

Which of several repeated keys it names hangs on how it sorts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from catalog.model import TableVersion
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.execution.reading.postgres_column import is_watched, temporary_tables
from gateway.execution.shadow.shadow import copy_rows
from gateway.session.cancel_listener import check
from planner.tree.nodes import Node
from storage.parquet.table_rows import live_rows_aside

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_ROWS: Final = f"{OWN}_rows"
# The columns of the index's table, and what stands in the index's definition behind the table.
_DEFINITION: Final = """
SELECT (SELECT pg_catalog.string_agg(pg_catalog.format('%I %s', a.attname,
            pg_catalog.format_type(a.atttypid, a.atttypmod))
            OPERATOR(pg_catalog.||) CASE WHEN a.attcollation OPERATOR(pg_catalog.=) 0 THEN ''
                ELSE ' COLLATE ' OPERATOR(pg_catalog.||) a.attcollation::pg_catalog.regcollation::pg_catalog.text END,
            ', ' ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid
            AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped),
    pg_catalog.substr(pg_catalog.pg_get_indexdef(x.oid), 1 OPERATOR(pg_catalog.+) pg_catalog.length(
        pg_catalog.format('CREATE UNIQUE INDEX %I ON %I.%I', x.relname, n.nspname, c.relname)))
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid OPERATOR(pg_catalog.=) i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE i.indrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid
    AND x.relname OPERATOR(pg_catalog.=) $2::pg_catalog.name AND i.indisunique
"""


@dataclass(frozen=True, slots=True)
class Build:
    """The index to build over the rows of a table with these columns."""

    version: TableVersion
    columns: str
    keys: str


async def planned_build(session: SessionContext, version: TableVersion, index: str, query: Node) -> Build | None:
    """What builds the table's index of that name, whose keys are in the query; None if users' code would run."""
    if is_watched(session, query, version.table.columns):
        return None
    [found] = await session.backend.run(Statement(_DEFINITION, (str(version.table.oid), index)))
    if not found.rows:
        return None
    columns, keys = ((each or b"").decode() for each in found.rows[0])
    return Build(version, columns, keys)


async def repeated(session: SessionContext, build: Build) -> str | None:
    """PostgreSQL's DETAIL about a repeated key; None without one. Raises what else forbids the index."""
    making = Statement(f"CREATE TEMPORARY TABLE {_ROWS} ({build.columns})")
    building = Statement(f"CREATE UNIQUE INDEX {OWN}_index ON pg_temp.{_ROWS} {build.keys}")
    async with temporary_tables(session, making):
        async for batch in live_rows_aside(session.gateway.data_path, build.version):
            check(session)
            await copy_rows(session, f"pg_temp.{_ROWS}", build.version.table.columns, batch)
        try:
            await session.backend.run(building)
        except SluiceError as error:
            if error.sqlstate != SqlState.UNIQUE_VIOLATION:
                raise
            return error.fields.get("D", "")
    return None
