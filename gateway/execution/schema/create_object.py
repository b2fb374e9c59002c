"""CREATE FUNCTION, DOMAIN, TYPE and the like in a block with deferred changes.

No session waits for a new object, so it is made at once, outside of windows; later statements find it under one OID.
Before that it is made in a window and undone, so that PostgreSQL checks it against the deferred changes: a function's
text may use objects that only they make, and is not checked again. A statement that names a deferred object may mean
another one outside; it settles the deferred changes.
"""

from __future__ import annotations

from typing import Final

from catalog.errors import SluiceError
from gateway.backend.connection import BackendLostError
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import TRIAL
from gateway.execution.schema.change_in_block import Outcome, in_block
from gateway.execution.schema.metadata_change import SchemaOnlyPortal
from gateway.transaction.ddl_settings import under
from planner.tree.object_references import mentioned

_UNCHECKED: Final[dict[str, str | None]] = {"check_function_bodies": "off"}


class MadeBesidePortal(SchemaOnlyPortal):
    """A new object other than a table."""

    async def _is_made_in_block(self) -> bool:
        return await in_block(self, self.routed.lake, self._in_window, self._beside)

    async def _in_window(self) -> Outcome:
        session = self.session
        assert self.routed.query is not None
        names = mentioned(self.routed.query.utilityStmt, session.gateway.builtins)
        self._tag = await self._patiently()
        return Outcome.SETTLING if session.transaction.deferred.mentions(names) else Outcome.NEXT_STEP

    async def _beside(self) -> Outcome:
        """Make it, unless it needs deferred changes."""
        backend = self.session.backend
        await backend.run(TRIAL.begin)
        try:
            await backend.run(*under(_UNCHECKED, [Statement(self.analysis.sql)]))
        except BackendLostError:
            raise
        except SluiceError:  # which is raised again if it still fails after settling
            await backend.run(*TRIAL.undo)
            return Outcome.SETTLING
        await backend.run(TRIAL.release)
        return Outcome.MADE
