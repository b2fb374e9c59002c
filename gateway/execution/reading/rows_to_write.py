"""Takes the rows of a PostgreSQL query in lake form: the query to ask, and the conversion of its answer.

Columns of types that lake tables lack (whole rows, names, `regclass`) are taken as PostgreSQL writes them, under the
present settings. Both text and binary forms are taken, because a cursor may be read in either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import FIRST_USER_OID, NUMERIC, TEXT, UNKNOWN, element_type
from catalog.errors import SluiceError, unsupported
from gateway.backend.arrays import number_array
from gateway.backend.own_statement import Statement
from gateway.backend.own_text import own_text
from gateway.execution.shadow.shadow import rows_of_bodies
from gateway.values import convert_binary
from gateway.values.forms import WRITTEN, arrow_form
from planner.syntax.statements import split

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext
    from gateway.wire.messages.backend import FieldDescription

_WITHOUT_BINARY: Final = (
    "SELECT oid::bigint FROM pg_catalog.pg_type"
    " WHERE oid OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.oid[]) AND typsend OPERATOR(pg_catalog.=) 0"
)


class Taking:
    """The columns of one query, whose `schema` is known beforehand.

    `written` are the numbers of the columns that are taken as PostgreSQL writes them, each with whether it has a
    binary form.
    """

    def __init__(self, fields: Sequence[FieldDescription], written: dict[int, bool]) -> None:
        self._fields = fields
        self._written = written
        self.schema = pa.schema(
            [
                (f"c{number}", WRITTEN if number in written else arrow_form(*_type(field)))
                for number, field in enumerate(fields)
            ]
        )

    def sql(self, query: str) -> str:
        """The query to send in place of the original; its results are requested in binary form."""
        if not self._written:
            return query
        listed = []
        for number, name in enumerate(self.schema.names):
            if number in self._written:
                listed.append(own_text(name))
            if self._written.get(number, True):
                listed.append(name)
        [statement] = split(query)
        return f"SELECT {', '.join(listed)} FROM (\n{statement.text}\n) AS pg_sluice ({', '.join(self.schema.names)})"

    def batches(self, bodies: list[bytes]) -> list[pa.RecordBatch]:
        """Rows, from the bodies of DataRows. A value that lake tables cannot store raises 0A000."""
        if not self._fields:
            return [pa.RecordBatch.from_pylist([{}] * len(bodies), schema=self.schema)]
        taken = len(self._fields) + sum(self._written.values())
        return [self._batch(batch) for batch in rows_of_bodies([f"v{number}" for number in range(taken)], bodies)]

    def _batch(self, taken: pa.RecordBatch) -> pa.RecordBatch:
        values = iter(taken.columns)
        columns: list[pa.Array] = []
        for number, field in enumerate(self._fields):
            column = next(values)
            if number not in self._written:
                columns.append(_column(column, field))
                continue
            text = convert_binary(column, TEXT, -1, from_postgres=True).array
            binary = next(values) if self._written[number] else pa.nulls(len(text), pa.binary())
            columns.append(
                pa.StructArray.from_arrays([text, binary.cast(pa.binary())], fields=list(WRITTEN), mask=text.is_null())
            )
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


async def taking(
    session: SessionContext,
    fields: Sequence[FieldDescription],
    refusal: SluiceError,
    *,
    enumerations: Collection[int],
    only_lake_types: bool,
) -> Taking:
    """The conversion of the columns. With `only_lake_types`, `refusal` is raised for any other type; the lake has
    these `enumerations` of user-defined types.
    """
    others = {
        number: field.type_oid
        for number, field in enumerate(fields)
        # Arrays may have several dimensions.
        if not _is_of_lake(field, enumerations) or (element_type(field.type_oid) is not None and not only_lake_types)
    }
    if not others:
        return Taking(fields, {})
    if only_lake_types:
        raise refusal
    [answer] = await session.backend.run(Statement(_WITHOUT_BINARY, (number_array(others.values()),)))
    without = {int(row[0] or 0) for row in answer.rows}
    return Taking(fields, {number: oid not in without for number, oid in others.items()})


def _is_of_lake(field: FieldDescription, enumerations: Collection[int]) -> bool:
    if field.type_oid >= FIRST_USER_OID:
        return field.type_oid in enumerations
    try:
        arrow_form(*_type(field))
    except SluiceError:
        return False
    return True


def _type(field: FieldDescription) -> tuple[int, int]:
    """The type to convert to; each numeric has its own scale."""
    if field.type_oid == NUMERIC:
        return NUMERIC, -1
    return (TEXT, -1) if field.type_oid == UNKNOWN else (field.type_oid, field.typmod)


def _column(values: pa.BinaryArray, field: FieldDescription) -> pa.Array:
    converted = convert_binary(values, *_type(field), from_postgres=True)
    if converted.refused is not None and converted.refused.true_count:
        raise unsupported(f'this value of column "{field.name}"')
    return converted.array
