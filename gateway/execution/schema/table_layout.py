"""CREATE TABLE … WITH (sluice.sort_by = …, sluice.partition_by = …): PostgreSQL makes the table without these options,
the catalog keeps them.

ALTER TABLE sets it as any change of one table's schema (gateway/execution/schema/alter_table.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.backend import catalog_calls
from gateway.backend.own_statement import Statement
from gateway.execution.changes.shadow_execution import send_own
from gateway.execution.schema.create_table import CreateTablePortal
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.wire.messages.backend import CommandComplete
from planner.syntax.table_options import is_laid_out, refuse_own_options, table_layout, without_own_options
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding, Portal
    from gateway.statement.routed import Routed

# The OID of what has that name where CREATE TABLE puts the table: a temporary table may have it, too.
_THERE: Final = """
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.relname OPERATOR(pg_catalog.=) $2::pg_catalog.name
    AND n.nspname OPERATOR(pg_catalog.=) coalesce($1::pg_catalog.name, pg_catalog.current_schema())
"""


def create_table_portal(session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> Portal:
    """CREATE TABLE, with a layout or with references to lake tables."""
    assert routed.query is not None
    making = _LaidOutPortal if is_laid_out(routed.query.utilityStmt) else CreateTablePortal
    return making(session, analysis, routed, binding)


async def lay_out(session: SessionContext, oid: int, options: Any) -> None:
    """Give a table that the transaction has just made the layout that its options ask for."""
    statements = catalog_calls.set_layout(oid, table_layout(options), lasting=True)
    if statements:
        await session.backend.run(*statements)


class _LaidOutPortal(SchemaOnlyPortal):
    """A new table with a layout. In a block, changes that were held back take place before it."""

    async def run(self) -> None:
        tag = await self._carry_out()
        for answer in self._answers:
            self.session.client.write(answer)
        self.session.client.send(CommandComplete(tag))

    async def _relay(self) -> str:
        assert self.routed.query is not None
        utility = self.routed.query.utilityStmt
        schema = utility.relation.fields.get("schemaname")
        there = Statement(_THERE, (None if schema is None else name_of(schema), name_of(utility.relation.relname)))
        [before] = await self.session.backend.run(there)
        tag = await super()._relay()
        if not before.rows:
            [made] = await self.session.backend.run(there)
            if not made.rows:  # pg_temp.…
                refuse_own_options(utility.options)
            for (oid,) in made.rows:
                assert oid is not None
                await lay_out(self.session, int(oid), utility.options)
        return tag

    async def _send(self) -> None:
        await send_own(self.session, without_own_options(self.analysis.sql), self.binding, ())
