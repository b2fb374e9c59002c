"""Writes rows that PostgreSQL has made in a shadow to Parquet without Spark, part by part."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import unsupported
from catalog.model import Table
from gateway.execution.shadow.shadow import shadow_rows, to_lake_form
from storage.spark.async_parquet_writer import WriterAside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.session.session_context import SessionContext


class ShadowWriter(WriterAside):
    """Use: `async with ShadowWriter(session, table) as writer: await writer.take(…); result = await
    writer.finish()`.
    """

    def __init__(self, session: SessionContext, table: Table) -> None:
        if not table.columns:
            raise unsupported("a row without columns")
        super().__init__(session.gateway.data_path, table, session.transaction.hot_rows_max)
        self._session = session
        self._table = table

    async def take(
        self, *after: Statement, condition: str = "true", shadow: int | None = None, before: Sequence[Statement] = ()
    ) -> list[Result]:
        """Write the rows of the shadow (or of another table's, by its OID) that satisfy the gateway's condition.

        `before` makes them, and `after` runs once they are read, in the same round trip; their answers are returned.
        """
        reading, shadow = self.reading(condition, shadow), self._table.oid if shadow is None else shadow
        results = await self._session.backend.run(*before, reading, *after)
        rest = results.pop(len(before))
        await self.write_bodies(shadow, rest.bodies)
        return results

    def reading(self, condition: str = "true", shadow: int | None = None) -> Statement:
        """The question for these rows. They are written as they come, but for those of its answer (`write_bodies`)."""
        table = self._table if shadow is None else replace(self._table, oid=shadow)
        return replace(shadow_rows(table, condition), take=partial(self.write_bodies, table.oid))

    async def write_bodies(self, shadow: int, bodies: list[bytes]) -> None:
        """Write rows of the shadow."""
        self._session.gateway.store.undone_rows.left(shadow, len(bodies))
        await self.write_made(partial(to_lake_form, self._table, bodies), sum(map(len, bodies)))
