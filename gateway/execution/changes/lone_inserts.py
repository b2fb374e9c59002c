"""INSERTs outside of a block that follow another one like them, each in a transaction of its own.

The transaction begins, PostgreSQL makes the row and the gateway reads it in one round trip, without an analysis: the
schema log tells, with the row, that nothing has changed since the last one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from catalog.errors import SluiceError
from gateway.backend.connection import BackendLostError
from gateway.backend.savepoints import TRIAL
from gateway.execution.changes.insert_series import Alone, InsertSeries
from gateway.execution.changes.row_changes import Changing
from gateway.execution.shadow.shadow import shadow_rows, to_lake_form
from gateway.session.cancel_listener import check
from gateway.transaction.enlistment import SchemaChangedError

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.backend.own_statement import Statement


class LoneInserts(InsertSeries):
    """Each statement is committed before it is answered, and no row waits."""

    async def _made(self, statement: Statement) -> Result | None:
        session, table = self._session, self._table
        then = [TRIAL.begin, statement, self._marking, shadow_rows(table), *TRIAL.undo]
        session.ends_with_statement = True
        try:
            async with Changing(Alone(session), "INSERT", table.oid, then=then) as changing:
                self._is_bound = True
                _, made, mark, rows, *_ = changing.begun
                self._read(made, mark, rows)
                check(session)
                await session.transaction.enlistment.use(
                    [table.oid], {table.oid: table}, self._mark, self._mark, in_block=True
                )
                async with self._writer() as writer:
                    await writer.write_made(partial(to_lake_form, table, rows.bodies), sum(map(len, rows.bodies)))
                    result = await writer.finish()
                await changing.wrote(result, self._version)
                self._tag = made.tag  # PostgreSQL commits at Sync, after this
                await changing.finish()
                return made
        except SchemaChangedError:
            return None
        finally:
            session.ends_with_statement = False

    async def _is_excused(self, error: SluiceError) -> bool:  # noqa: ARG002  the schema decides
        """Whether a schema has changed: then the common way tells what is wrong."""
        await self._session.transaction.roll_back()
        try:
            [now] = await self._session.backend.run(self._marking)
        except BackendLostError:
            raise
        except SluiceError:
            return True  # there is no such table any more
        return not self._is_as_before(now)
