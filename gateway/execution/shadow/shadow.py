"""Puts rows into a shadow, in a savepoint, for PostgreSQL to make or check, and reads them back in lake form.

The shadow has the table's defaults, identity, generated columns, CHECK, NOT NULL and lengths. The savepoint is undone,
so that the shadow is empty again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.datatypes import BY_ARRAY_OID, BY_OID, CARRIED, CHECKED_TEXTS, TEXT, element_type, is_enumeration
from catalog.errors import unsupported
from catalog.model import Column, Table
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.connection import Result
from gateway.backend.copies import copy_in
from gateway.backend.own_message import of_shadow, shadow_view
from gateway.backend.own_statement import Statement
from gateway.backend.own_text import own_text
from gateway.backend.savepoints import TRIAL
from gateway.copy_format import BinaryReader, CopyFormat, CopyOptions, CopyWriter
from gateway.statement.array_shapes import ArrayShapeError
from gateway.transaction.enlistment import SchemaChangedError
from gateway.values import Format, OutputSettings, ResultColumn, convert_binary
from gateway.values.binary import binary_array
from gateway.values.text import text_cells
from planner.syntax.lexer import quoted

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

# COPY's binary signature, flags and header extension, and its trailer.
COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER: Final = b"\xff\xff"
_PUT_KEPT: Final = (
    "SELECT pg_sluice.put_kept($1::pg_catalog.text, $2::pg_catalog.text[], $3::pg_catalog.oid[], $4::integer,"
    " $5::pg_catalog.text[])"
)
# Whether the client itself may copy rows into the shadow of this OID. What the table's owner has PostgreSQL run for
# each row (CHECKs, indexes, generated columns) would run as the client: then the owner copies them.
MAY_COPY: Final = (
    "pg_catalog.has_table_privilege({0}, 'INSERT') AND NOT pg_catalog.row_security_active({0})"
    " AND (SELECT CASE WHEN pg_catalog.pg_get_userbyid(c.relowner) OPERATOR(pg_catalog.=) current_user THEN true"
    " ELSE NOT pg_sluice.runs_users_code(c.oid) END"
    " FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {0})"
)
# Rows, and their bytes, that are copied together with other statements.
_FEW_ROWS: Final = 100
_FEW_BYTES: Final = 1 << 15
# Rows whose values go in one array.
_PUT_ROWS: Final = 20_000


def qualified(table: Table) -> str:
    """The table's name in SQL."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


async def begin_shadow(session: SessionContext, table: Table, *more: Statement) -> list[Result]:
    """Begin the savepoint, and keep the table's schema as it is until that is undone. `more` is carried out within it,
    in the same round trip; its answers are returned."""
    _, held, *answers = await session.backend.run(TRIAL.begin, catalog_calls.hold_schema([table.oid]), *more)
    try:
        session.transaction.enlistment.confirm_held(table, held)
    except SchemaChangedError:
        await session.backend.run(*TRIAL.undo)
        raise
    return answers


def suspending(table: Table) -> Statement:
    """To be asked inside the savepoint, before rows that are there are copied: they may break what is not validated."""
    return catalog_calls.suspend_unvalidated(table.oid)


async def resume(session: SessionContext, answers: Sequence[Result]) -> None:
    """The existing rows are copied, later ones are new; `answers` are those to `suspending`."""
    suspended = [value for answer in answers for (value,) in answer.rows if value is not None]
    if suspended:
        await session.backend.run(*map(catalog_calls.resume_unvalidated, suspended))


async def take_shadow_rows(session: SessionContext, table: Table) -> list[pa.RecordBatch]:
    """The rows in the shadow, in lake form; afterwards the shadow is empty again (the savepoint undone)."""
    if not table.columns:
        raise unsupported("a row without columns")
    [result, *_] = await session.backend.run(shadow_rows(table), *TRIAL.undo)
    session.gateway.store.undone_rows.left(table.oid, len(result.bodies))
    return await asyncio.to_thread(to_lake_form, table, result.bodies)


def shadow_rows(table: Table, condition: str = "true", *, placed: bool = False) -> Statement:
    """The question for rows of the shadow that satisfy the gateway's condition; with `placed`, the last column is the
    row's place in the shadow.
    """
    values = [kept_value(column, f"(kept).{quoted(column.name)}") for column in table.columns]
    places = ["ctid::pg_catalog.text"] if placed else []
    sql = f"SELECT {', '.join([*values, *places])} FROM {shadow_view(table.oid)} WHERE {condition}"
    return Statement(of_shadow(table.oid, sql), result_format=1, bodies_only=True)


def kept_value(column: Column, name: str) -> str:
    """The SQL of a value of the column's type whose binary form is that of the column's lake form.

    For an enumeration or a user's array it is no cast, because a user may have made one: no user-defined function
    runs. A cast from a domain is always PostgreSQL's own.
    """
    if is_enumeration(column.type_oid):
        return own_text(name)
    if column.user_array is not None:
        return f"pg_catalog.array_send({name})"
    if column.carried is not None:
        number = column.carried.by_number
        return f"pg_sluice.kept_text({name if number is None else f'{name}::{number}'})"
    return name if column.domain is None else f"{name}::{_sql_type(column.type_oid)}"


def _sql_type(type_oid: int) -> str:
    element = BY_ARRAY_OID.get(type_oid)
    return f"pg_catalog.{element.name}[]" if element else f"pg_catalog.{BY_OID[type_oid].name}"


def to_lake_form(table: Table, bodies: list[bytes]) -> list[pa.RecordBatch]:
    """Rows of the table, from the bodies of DataRows in binary."""
    batches = rows_of_bodies([column.name for column in table.columns], bodies)
    return [binary_to_lake_form(table, batch) for batch in batches]


def placed_to_lake_form(table: Table, bodies: list[bytes]) -> tuple[list[pa.RecordBatch], pa.Array]:
    """Rows of the table with their places, from the bodies of DataRows in binary."""
    batches = rows_of_bodies([*(column.name for column in table.columns), "place"], bodies)
    places = [batch.column(len(table.columns)).cast(pa.binary()) for batch in batches]
    rows = [binary_to_lake_form(table, batch.select(range(len(table.columns)))) for batch in batches]
    return rows, pa.concat_arrays(places) if places else pa.array([], pa.binary())


def rows_of_bodies(names: Sequence[str], bodies: list[bytes]) -> list[pa.RecordBatch]:
    """Decode rows: a DataRow's body in binary form is a tuple of COPY's binary format, so its reader serves here."""
    reader = BinaryReader(names)
    batches = [*reader.feed(b"".join((COPY_HEADER, *bodies, COPY_TRAILER))), *reader.finish()]
    return [batch.fields for batch in batches]


def binary_to_lake_form(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of PostgreSQL's binary values in lake form; a value that lake tables cannot store raises 0A000."""
    arrays, unheld = [], []
    for column, values in zip(table.columns, batch.columns, strict=True):
        of_users = column.user_array is not None
        converted = convert_binary(values, column.type_oid, column.typmod, from_postgres=True, of_users=of_users)
        if converted.refused is not None and converted.refused.true_count:
            if element_type(column.type_oid) is None:
                raise unsupported(f'this value of column "{column.name}"')
            unheld.append(column.name)
        arrays.append(converted.array)
    if unheld:
        raise ArrayShapeError(table, unheld)
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])


async def copy_values(
    session: SessionContext,
    target: str,
    names: Sequence[str],
    types: Sequence[ResultColumn],
    rows: pa.RecordBatch | pa.Table,
) -> None:
    """Copy rows of values of these types into columns of the table `target`.

    In binary format, which settings do not change: under some of them, IntervalStyle's own text means something else.
    """
    messages = await asyncio.to_thread(_copied, names, types, rows)
    await copy_in(session.backend, _copy(target, names), messages)


def copying_few(target: str, columns: Sequence[Column], rows: pa.RecordBatch | pa.Table) -> Statement | None:
    """What copies rows of these columns into the table `target`, for a round trip with other statements; None if they
    are many, or of types that are kept as texts.
    """
    few = rows.num_rows <= _FEW_ROWS and rows.get_total_buffer_size() <= _FEW_BYTES
    if not few or any(column.carried for column in columns):
        return None
    names = [column.name for column in columns]
    return Statement(_copy(target, names), copied=_copied(names, list(map(result_column, columns)), rows))


def _copy(target: str, names: Sequence[str]) -> str:
    return f"COPY {target} ({', '.join(map(quoted, names))}) FROM STDIN (FORMAT binary)"


def _copied(names: Sequence[str], types: Sequence[ResultColumn], rows: pa.RecordBatch | pa.Table) -> bytes:
    """The CopyData messages of rows."""
    batches = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
    binary = [replace(each, format=Format.BINARY) for each in types]
    writer = CopyWriter(CopyOptions(format=CopyFormat.BINARY), binary, names, OutputSettings())
    return b"".join(map(writer.rows, batches)) + writer.finish()


def runs_checks(columns: Sequence[Column]) -> bool:
    """Whether making values of texts runs code of the table's owner, with whose rights the rows are then written."""
    return any(column.type_oid == CARRIED and column.typmod == CHECKED_TEXTS for column in columns)


async def copy_rows(
    session: SessionContext, target: str, columns: Sequence[Column], rows: pa.RecordBatch | pa.Table
) -> None:
    """Copy rows of these columns into the table `target`."""
    types = [result_column(column) for column in columns]
    if any(column.carried for column in columns):
        for start in range(0, rows.num_rows, _PUT_ROWS):
            part = rows.slice(start, _PUT_ROWS)
            await _put(session, _PUT_KEPT, target, columns, types, part, part.num_rows)
        return
    await copy_values(session, target, [column.name for column in columns], types, rows)


def result_column(column: Column) -> ResultColumn:
    """A column in the form in which PostgreSQL gets its values."""
    array = column.user_array
    if column.carried is not None:
        return ResultColumn(column.type_oid, column.typmod, array_oid=column.carried.oid)
    if array is None:
        return ResultColumn(column.type_oid, column.typmod)
    return ResultColumn(column.type_oid, column.typmod, array_oid=array.oid, element_oid=array.element_oid)


async def put_rows(session: SessionContext, table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> None:
    """Put rows of these columns into the shadow, whatever the client's privileges: it takes longer than `copy_rows`."""
    types = [result_column(column) for column in columns]
    for start in range(0, rows.num_rows, _PUT_ROWS):
        part = rows.slice(start, _PUT_ROWS)
        await put_as_owner(session, table, columns, types, part, part.num_rows)


async def put_as_owner(  # noqa: PLR0917
    session: SessionContext,
    table: Table,
    columns: Sequence[Column],
    types: Sequence[ResultColumn],
    rows: pa.RecordBatch,
    count: int,
) -> None:
    """Have the table's owner put so many rows into the shadow, with only these columns given."""
    await _put(session, catalog_calls.put_as_owner(table.oid), str(table.oid), columns, types, rows, count)


async def _put(  # noqa: PLR0917
    session: SessionContext,
    sql: str,
    target: str,
    columns: Sequence[Column],
    types: Sequence[ResultColumn],
    rows: pa.RecordBatch | pa.Table,
    count: int,
) -> None:
    parameters = (
        target,
        binary_array(pa.array([column.name for column in columns], pa.string()), TEXT),
        number_array(each.array_oid or each.type_oid for each in types),
        str(count),
        await asyncio.to_thread(cells_of, types, rows),
    )
    await session.backend.run(Statement(sql, parameters, parameter_formats=(0, 1, 0, 0, 1)))


def cells_of(types: Sequence[ResultColumn], rows: pa.RecordBatch | pa.Table) -> bytes:
    """All values as text, column by column, as an array in PostgreSQL's binary form."""
    settings = OutputSettings()
    columns = []
    for each, column in zip(types, rows.columns, strict=True):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        columns.append(pc.if_else(array.is_valid(), text_cells(array, each.type_oid, settings).cast(pa.string()), None))
    return binary_array(pa.concat_arrays(columns or [pa.array([], pa.string())]), TEXT)
