"""The rows that an INSERT … ON CONFLICT proposes, as literals.

The statement is repeated with them, so that each row keeps its numbers from sequences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, Table
from gateway.backend.own_statement import Statement
from gateway.execution.changes.shadow_execution import one_array
from gateway.values import OutputSettings
from gateway.values.text import text_cells
from planner.syntax.lexer import quoted
from planner.tree.nodes import Node
from planner.tree.references import common_names
from planner.tree.sequence_usage import takes_numbers

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# With more rows, the statement is repeated unchanged, and leaves gaps in sequences.
_ROWS: Final = 10_000
_RTE_VALUES: Final = 5  # RTEKind of parsenodes.h
_DO_NOTHING: Final = 1  # OnConflictAction of nodes.h
_MAY_INSERT: Final = (
    "SELECT pg_catalog.has_table_privilege($1::bigint::pg_catalog.oid, 'INSERT'),"
    " pg_sluice.backend_setting('array_nulls')"
)
# All sessions read these forms alike.
_SETTINGS: Final = OutputSettings(interval_style="iso_8601")


async def values_proposed(
    session: SessionContext, query: Node, table: Table, columns: Sequence[Column], fresh: pa.Table
) -> str | None:
    """VALUES for the place of the source; `fresh` is the statement's outcome without any conflict with the lake. None
    if numbers do not matter, or if not all rows are known.
    """
    if not fresh.num_rows or fresh.num_rows > _ROWS or not takes_numbers(query, session.gateway.builtins):
        return None
    # Without the source, the names of WITH queries would be missing; a view's columns have names of their own.
    if common_names((query.onConflict, query.returningList)) or int(query.resultRelation) != 1:
        return None
    if int(query.onConflict.action) == _DO_NOTHING and not _is_whole(query, table, fresh.num_rows):
        return None
    [may] = await session.backend.run(Statement(_MAY_INSERT, (str(table.oid),)))
    if may.rows[0][0] != b"t":
        return None
    arrays = [one_array(fresh, column) for column in columns]
    if may.rows[0][1] != b"on" and any(map(_has_null_elements, arrays)):
        return None
    listed = ", ".join(quoted(column.name) for column in columns)
    values = await asyncio.to_thread(_literals, columns, fresh)
    return f"({listed}) OVERRIDING SYSTEM VALUE VALUES {values} "


def _has_null_elements(array: pa.Array) -> bool:
    """Whether it is an array of arrays with a NULL, which a session may read as text."""
    return bool(pa.types.is_list(array.type) and array.flatten().null_count)


def _is_whole(query: Node, table: Table, inserted: int) -> bool:
    """Whether no row was skipped that another attempt could insert. With one deciding
    key, equal rows are skipped together; with several keys, different ones may decide about two rows.
    """
    decides = query.onConflict.arbiterElems or int(query.onConflict.constraint)
    if decides or (len(table.keys) + len(table.computed_keys) <= 1 and not table.exclusions):
        return True
    lists = [len(entry.values_lists) for entry in query.rtable if entry.rtekind == _RTE_VALUES]
    return inserted == (lists[0] if len(lists) == 1 else 1) and len(lists) <= 1 and not _selects(query)


def _selects(query: Node) -> bool:
    """Whether the rows come from a query."""
    return any(entry.rtekind != _RTE_VALUES for entry in query.rtable[2:])


def _literals(columns: Sequence[Column], rows: pa.Table) -> str:
    """`(…), (…)`: texts, which PostgreSQL reads as the columns' types. Blocking."""
    pieces = []
    for place, column in enumerate(columns):
        array = one_array(rows, column)
        text = text_cells(array, column.type_oid, _SETTINGS).cast(pa.string())
        for mark in ("\\", "'"):
            text = pc.replace_substring(text, mark, mark * 2)
        literal = pc.binary_join_element_wise(" E'" if not place else ", E'", text, "'", "")
        pieces.append(pc.if_else(array.is_valid(), literal, "NULL" if not place else ", NULL"))
    made = pc.binary_join_element_wise("(", *pieces, ")", "")
    return str(pc.binary_join(pa.array([made.to_pylist()], pa.list_(pa.string())), ", ")[0].as_py())
