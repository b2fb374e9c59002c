"""CREATE TABLE in a block that references shared tables, without making other sessions wait.

PostgreSQL locks a referenced table until the block ends. So the table is made for good without its foreign keys, and a
deferred change adds these (gateway/transaction/transactional_ddl.py). The statement is first tried unchanged in a
window: its errors and notices are PostgreSQL's, and it tells the table's final constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.execution.schema.deferred_validation import defer, may_defer
from gateway.execution.shadow.function_guard import relay_statement
from gateway.session.visibility import latest
from gateway.statement.portal import StatementPortal
from gateway.statement.range_variable import quoted_name, resolve
from gateway.wire.messages.backend import CommandComplete
from planner.syntax.create_table_text import without_references
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from gateway.backend.analysis import Analysis
    from gateway.session.session_context import SessionContext
    from gateway.statement.portal import Binding
    from gateway.statement.routed import Routed

_CONSTRAINTS: Final = """
SELECT pg_catalog.quote_ident(conname), contype, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
WHERE conrelid OPERATOR(pg_catalog.=) $1::pg_catalog.int8::pg_catalog.oid ORDER BY conname
"""


class CreateTablePortal(StatementPortal):
    """A new table that references the lake tables in `routed.lake`."""

    def __init__(self, session: SessionContext, analysis: Analysis, routed: Routed, binding: Binding) -> None:
        super().__init__(session, analysis, routed, binding)
        assert routed.query is not None
        self._relation = routed.query.utilityStmt.relation
        self._name = name_of(self._relation.relname)

    async def run(self) -> None:
        session, deferred = self.session, self.session.transaction.deferred
        without = without_references(self.analysis.sql)
        if without is None or deferred.minds(self._name) or not await may_defer(session, self.routed.lake):
            await deferred.settle()
            tag = await relay_statement(session, self.binding)
        else:
            tag = await self._make(without)
        session.client.send(CommandComplete(tag))

    async def _make(self, without: str) -> str:
        session, deferred = self.session, self.session.transaction.deferred
        await deferred.open()
        is_there = await resolve(session, self._relation) is not None
        parents = [(await latest(session, oid)).table for oid in self.routed.lake]
        tag = await relay_statement(session, self.binding)
        if is_there:  # IF NOT EXISTS
            await deferred.close()
            return tag
        wanted = await self._constraints()
        await deferred.close()
        await session.backend.run(Statement(without))
        await deferred.open()
        table = quoted_name(self._relation)
        adding = [f"ADD CONSTRAINT {name} {definition}" for name, kind, definition in wanted if kind == "f"]
        change = Statement(f"ALTER TABLE {table} {', '.join(adding)}")
        await session.backend.run(change)
        if await self._constraints() != wanted:
            raise SluiceError(
                SqlState.INTERNAL_ERROR, f"the foreign keys of {table} were not added as they are written"
            )
        await defer(session, self.analysis, parents, (), statements=[change])
        return tag

    async def _constraints(self) -> list[tuple[str, str, str]]:
        """The new table's constraints: quoted names, kinds and definitions, by name."""
        oid = await resolve(self.session, self._relation)
        [result] = await self.session.backend.run(Statement(_CONSTRAINTS, (str(oid),)))
        return [tuple((value or b"").decode() for value in row) for row in result.rows]  # type: ignore[misc]
