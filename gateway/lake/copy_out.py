"""COPY … TO STDOUT: a SELECT whose rows are encoded for COPY."""

from __future__ import annotations

import asyncio

from catalog.errors import SluiceError, SqlState
from catalog.model import Table
from gateway.copy import CopyFormat, CopyOptions, CopyWriter
from gateway.enlistment import analysed
from gateway.lake.copied_columns import copied_columns
from gateway.lake.select import open_stream
from gateway.lake.shadow import qualified
from gateway.messages.backend import CommandComplete
from gateway.messages.copy import CopyDone, CopyOutResponse
from gateway.portal import Binding, StatementPortal
from gateway.routing import Routed, route
from gateway.values import ResultColumn
from gateway.visibility import latest, rules
from planner.lexer import quoted
from planner.nodes import Node


def copy_options(routed: Routed) -> dict[str, object]:
    """The options of a COPY, from PostgreSQL's tree of it: a bare option is True, `*` stands for all columns."""
    assert routed.query is not None
    return {str(option.defname): _value(option.arg) for option in routed.query.utilityStmt.options or ()}


def _value(argument: object) -> object:
    if argument is None:
        return True
    if isinstance(argument, Node):
        return "*" if argument.type == "A_STAR" else argument.fields.get("val", argument)
    return list(argument) if isinstance(argument, tuple) else argument


class CopyOutPortal(StatementPortal):
    """COPY table [(columns)] TO STDOUT, or COPY (query) TO STDOUT."""

    async def run(self) -> None:
        session = self.session
        inner, inner_routed = self.routed.inner, self.routed.inner_routed
        table: Table | None = None
        if inner is None or inner_routed is None:
            table, query = await self._table_query()
            inner = await analysed(session, query, sync=True)
            inner_routed = await route(session, inner)
        fields = inner.columns or ()
        names = [field.name for field in fields]
        options = CopyOptions.parse(
            copy_options(self.routed),
            names,
            is_from=False,
            relation=None if table is None else table.name,
            relation_columns=[] if table is None else [column.name for column in table.columns],
        )
        form = int(options.format is CopyFormat.BINARY)
        reading, stream = await open_stream(session, inner, inner_routed, Binding(), self.limit_time)
        rows = 0
        try:
            async with session.timeouts.out_of_window():
                columns = [ResultColumn(field.type_oid, field.typmod, form) for field in fields]
                writer = CopyWriter(options, columns, names, reading.output)
                session.send_noted(CopyOutResponse(bytes([form]), (form,) * len(fields)))
                async for batch in stream:
                    rows += batch.num_rows
                    session.client.write(await asyncio.to_thread(writer.rows, batch))
                    await session.client.drain()
                session.client.write(writer.finish())
        finally:
            await stream.close()
        session.send_noted(CopyDone())
        session.client.send(CommandComplete(f"COPY {rows}"))

    async def _table_query(self) -> tuple[Table, str]:
        """The table, and the query of what is copied of it."""
        assert self.routed.query is not None
        statement: Node = self.routed.query.utilityStmt
        version = await latest(self.session, self.routed.lake[0])
        if not version.table.populated:
            raise SluiceError(
                SqlState.OBJECT_NOT_IN_PREREQUISITE_STATE,
                f'cannot copy from unpopulated materialized view "{version.table.name}"',
                hint="Use the REFRESH MATERIALIZED VIEW command.",
            )
        kept = await rules(self.session, version.table)
        columns = copied_columns(version.table, statement.attlist, kept.generated)
        listed = ", ".join(quoted(column.name) for column in columns)
        return version.table, f"SELECT {listed} FROM ONLY {qualified(version.table)}"
