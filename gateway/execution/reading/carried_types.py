"""Result columns of carried types: PostgreSQL makes values of the texts in files.

So the client gets them as PostgreSQL sends them, under its own settings, in text or binary form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from catalog.datatypes import BYTEA, CARRIED, TEXT
from gateway.backend.own_statement import Statement
from gateway.execution.shadow.shadow import rows_of_bodies
from gateway.values import Format, ResultColumn
from gateway.values.binary import binary_array
from planner.plans.select import plan_select
from planner.spark.plan import Context, SparkQuery

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_TEXTS: Final = 1009
# Rows whose values PostgreSQL makes at a time.
_ROWS: Final = 20_000


class CarriedColumns:
    """The carried columns of a query that Spark computes."""

    def __init__(self) -> None:
        self._places: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._places)

    def plan(self, tree: Any, context: Context) -> SparkQuery:
        """The plan of a SELECT; records its columns of carried types."""
        query = plan_select(tree, context, carries=True)
        self._places = tuple(place for place, each in enumerate(query.columns) if each.type_oid == CARRIED)
        return query

    def sent(self, columns: Sequence[ResultColumn]) -> list[ResultColumn]:
        """The columns as they are encoded after PostgreSQL has made the values, whose bytes pass unchanged."""
        found = list(columns)
        for place in self._places:
            kind = BYTEA if columns[place].format == Format.BINARY else TEXT
            found[place] = replace(columns[place], type_oid=kind, typmod=-1)
        return found

    async def made(
        self, session: SessionContext, batch: pa.RecordBatch, columns: Sequence[ResultColumn]
    ) -> list[pa.RecordBatch]:
        """The batch with the values as PostgreSQL writes them; `columns` are those of the result."""
        if not self._places:
            return [batch]
        parts = [batch.slice(start, _ROWS) for start in range(0, batch.num_rows, _ROWS)]
        return [await self._made(session, part, columns) for part in parts]

    async def _made(
        self, session: SessionContext, batch: pa.RecordBatch, columns: Sequence[ResultColumn]
    ) -> pa.RecordBatch:
        arrays = batch.columns
        for form in (Format.TEXT, Format.BINARY):
            places = [place for place in self._places if columns[place].format == form]
            if not places:
                continue
            [answer] = await session.backend.run(_question(batch, columns, places, form))
            rows = pa.Table.from_batches(rows_of_bodies([str(place) for place in places], answer.bodies))
            for place, values in zip(places, rows.combine_chunks().columns, strict=True):
                made = pa.concat_arrays(values.chunks)
                arrays[place] = made if form == Format.BINARY else made.cast(pa.string())
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])


def _question(batch: pa.RecordBatch, columns: Sequence[ResultColumn], places: Sequence[int], form: Format) -> Statement:
    """The statement that makes values of texts, one for each row."""
    calls, parameters, types = [], list[bytes | None](), list[int]()
    for number, place in enumerate(places):
        calls.append(f"pg_sluice.of_kept_texts(${2 * number + 1}, ${2 * number + 2})")
        parameters += [binary_array(batch.column(place).cast(pa.string()), TEXT), None]
        types += [_TEXTS, columns[place].type_oid]
    return Statement(
        f"SELECT {', '.join(calls)}", parameters, types, (1, 0) * len(places), result_format=int(form), bodies_only=True
    )
