"""CREATE FUNCTION, DOMAIN, TYPE and the like in a block that has deferred changes of schemas.

Nobody waits for what is new, so it is made at once, outside of any window: what comes after it, a table made at once
among it, finds it there under one OID. In a window it is made before that, and undone, so that PostgreSQL says what is
wrong with it in the light of what is deferred: a function's text may use what only that has made, and is not looked at
again. What mentions something deferred by name may be another thing outside; that settles what was deferred.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError
from gateway.backend.connection import BackendLostError, Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.transaction.ddl_settings import under
from planner.tree.object_references import mentioned

_UNCHECKED: Final[dict[str, str | None]] = {"check_function_bodies": "off"}


class MadeBesidePortal(SchemaOnlyPortal):
    """What is new, and no table."""

    async def _defer(self) -> str:
        session, deferred = self.session, self.session.transaction.deferred
        assert self.routed.query is not None
        names = mentioned(self.routed.query.utilityStmt, session.gateway.builtins)
        await deferred.open()
        tag = await self._patiently()
        await deferred.close()
        if deferred.mentions(names) or not await self._is_made():
            return await self._carry_out()
        return tag

    async def _is_made(self) -> bool:
        """Make it. Not where it cannot be made as long as what was deferred is not there: then it was not tried."""
        backend = self.session.backend
        await backend.run(TRIAL.begin)
        try:
            await backend.run(*under(_UNCHECKED, [Statement(self.analysis.sql)]))
        except BackendLostError:
            raise
        except SluiceError:  # which is raised where it still fails once all is settled
            await backend.run(*TRIAL.undo)
            return False
        await backend.run(TRIAL.release)
        return True
