"""CREATE TABLE in a block that references shared tables, without making other sessions wait.

PostgreSQL locks a referenced table until the block ends. So the table is made for good without its foreign keys, and a
deferred change adds these (gateway/transaction/transactional_ddl.py). The statement is first tried unchanged in a
window: its errors and notices are PostgreSQL's, and it tells the table's final constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.errors import SluiceError, SqlState
from gateway.backend.own_statement import Statement
from gateway.execution.schema.change_in_block import Outcome, in_block
from gateway.execution.schema.deferred_validation import Deferral
from gateway.execution.shadow.function_guard import relay_statement
from gateway.session.visibility import latest
from gateway.statement.portal import StatementPortal
from gateway.statement.range_variable import quoted_name, resolve
from gateway.wire.messages.backend import CommandComplete
from planner.syntax.create_table_text import without_references
from planner.tree.nodes import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.model import Table
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
        self._without: str | None = None
        self._parents: Sequence[Table] = ()
        self._wanted: Sequence[tuple[str, str, str]] = ()
        self._tag = ""

    async def run(self) -> None:
        session = self.session
        self._without = without_references(self.analysis.sql)
        can_be_made = self._without and not session.transaction.deferred.minds(self._name)
        locked = self.routed.lake if can_be_made else None
        if not await in_block(self, locked, self._tried, self._made_without_references, self._references_added):
            self._tag = await relay_statement(session, self.binding)
        session.client.send(CommandComplete(self._tag))

    async def _tried(self) -> Outcome:
        session = self.session
        is_there = await resolve(session, self._relation) is not None
        self._parents = [(await latest(session, oid)).table for oid in self.routed.lake]
        self._tag = await relay_statement(session, self.binding)
        if is_there:  # IF NOT EXISTS
            return Outcome.MADE
        self._wanted = await self._constraints()
        return Outcome.NEXT_STEP

    async def _made_without_references(self) -> Outcome:
        assert self._without is not None
        await self.session.backend.run(Statement(self._without))
        return Outcome.NEXT_STEP

    async def _references_added(self) -> Deferral:
        table = quoted_name(self._relation)
        adding = [f"ADD CONSTRAINT {name} {definition}" for name, kind, definition in self._wanted if kind == "f"]
        change = Statement(f"ALTER TABLE {table} {', '.join(adding)}")
        await self.session.backend.run(change)
        if await self._constraints() != self._wanted:
            raise SluiceError(
                SqlState.INTERNAL_ERROR, f"the foreign keys of {table} were not added as they are written"
            )
        return Deferral(tables=self._parents, statements=[change])

    async def _constraints(self) -> list[tuple[str, str, str]]:
        """The new table's constraints: quoted names, kinds and definitions, by name."""
        oid = await resolve(self.session, self._relation)
        [result] = await self.session.backend.run(Statement(_CONSTRAINTS, (str(oid),)))
        return [tuple((value or b"").decode() for value in row) for row in result.rows]  # type: ignore[misc]
