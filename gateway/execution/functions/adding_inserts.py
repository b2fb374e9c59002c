"""INSERTs that follow another one like them, and fire triggers that only add rows (`adding_triggers`).

As for INSERTs without triggers, no further analysis is made while no schema changes; but each is staged at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from gateway.execution.changes.insert_series import Alone
from gateway.execution.changes.lone_inserts import LoneInserts
from gateway.execution.functions.over_empty_shadows import OverEmptyShadows
from gateway.transaction.enlistment import SchemaChangedError

if TYPE_CHECKING:
    from catalog.schema.triggers import AddingTriggers
    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement
    from gateway.session.response_spool import ResponseSpool
    from gateway.session.session_context import SessionContext
    from gateway.transaction.inserted import Inserted


class AddingInserts(LoneInserts):
    """The series, in a client's block or outside of one."""

    def __init__(self, session: SessionContext, inserted: Inserted, known: AddingTriggers) -> None:
        super().__init__(session, inserted)
        self._known = known
        self._in_block = session.transaction.open

    async def _made(self, statement: Statement) -> Result | None:
        session = self._session
        made: list[Result] = []

        was_bound = False

        async def perform(_: ResponseSpool, asked: Sequence[Statement]) -> tuple[str, bool, list[Result]]:
            nonlocal was_bound
            try:
                first, *answers = await session.backend.run(statement, *asked)
            except SluiceError:
                was_bound = session.backend.is_bound
                raise
            self._is_bound = True
            made.append(first)
            return first.tag, bool(first.notices), answers

        async def give(_: ResponseSpool) -> None:
            if not self._in_block:
                self._tag = made[0].tag  # PostgreSQL commits at Sync, after this

        session.ends_with_statement = not self._in_block
        execution = OverEmptyShadows(Alone(session), self._known, self._table.oid, self._mark, repeats=True)
        try:
            tag = await execution.execute(perform, give)
        except SchemaChangedError:
            return None
        except SluiceError:
            session.backend.is_bound = was_bound  # what was executed since does not count
            raise
        finally:
            session.ends_with_statement = False
        if tag is not None:
            return made[0]
        if not self._in_block:
            await session.transaction.roll_back()
        self._tag, self._is_bound = "", False
        session.gateway.store.triggers.adding.pop((session.user, self._table.oid), None)
        return None

    async def _is_excused(self, error: SluiceError) -> bool:
        if self._in_block:
            return await super(LoneInserts, self)._is_excused(error)
        return await super()._is_excused(error)
