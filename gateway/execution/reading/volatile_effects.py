"""Keeps the effects of VOLATILE functions of a PostgreSQL query, and removes the copied rows afterwards.

The functions are user-defined, or PostgreSQL's own that lock, notify and set
(`planner.plans.computable.lasting_functions`).

Nothing is undone: the copies bypass all triggers, and are removed after the query. The functions' other effects are
then PostgreSQL's own, with its errors. Effects on the lake cannot last: if functions have changed or locked copies, or
written another lake table, the query is refused afterwards.

The shadows stay locked until the transaction ends, as PostgreSQL's tables would.

At READ COMMITTED, each statement in such a function sees the rows committed by then. So other transactions must not
have changed the tables of the query meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final

from catalog.errors import unsupported
from catalog.model import TableVersion
from gateway.backend import catalog_calls
from gateway.backend.arrays import number_array
from gateway.backend.own_message import LOCKED, of_shadow, shadow_view
from gateway.backend.own_statement import Statement
from gateway.backend.savepoints import EFFECTS, TRIAL
from gateway.execution.shadow.function_guard import REFUSE_REWRITING, check_written, written
from gateway.execution.shadow.trigger_bypass import copying_role, role_again
from gateway.session.visibility import versions

if TYPE_CHECKING:
    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext

_SETTINGS: Final = Statement(
    "SELECT pg_sluice.backend_setting('idle_in_transaction_session_timeout'),"
    " pg_sluice.backend_setting('max_parallel_workers_per_gather')"
)
_IDLE: Final = "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)"
_WORKERS: Final = "SELECT pg_catalog.set_config('max_parallel_workers_per_gather', $1, true)"
_CHANGES: Final = "SELECT pg_sluice.shadow_changes($1::pg_catalog.oid[])"


class LastingEffects:
    """Call `begin` before settings and copies, `end_copying` before the statement, `take_copies` after it, then
    `keep`.
    """

    def __init__(self, session: SessionContext, copied: Mapping[int, TableVersion], *, read_again: bool) -> None:
        """`read_again`: functions may read the tables of the query themselves."""
        self._session = session
        self._read_again = read_again
        self._copied = copied
        self._changes = Statement(_CHANGES, (number_array(copied),)), written(copied)
        self._settings: list[bytes | None] = []
        self._role: bytes | None = None
        self._past_triggers = copying_role(version.table for version in copied.values())
        self._before: tuple[Result, ...] = ()

    async def begin(self) -> None:
        """The savepoint for the copied rows has begun."""
        settings, before = await self._session.backend.run(_SETTINGS, self._past_triggers)
        self._settings, [[self._role]] = list(settings.rows[0]), before.rows

    async def end_copying(self) -> None:
        """All rows are copied; the client's statement is next."""
        role = role_again(self._role)
        idle = Statement(_IDLE, (self._settings[0],))
        _, _, *before, _ = await self._session.backend.run(role, idle, *self._changes, EFFECTS.begin)
        self._before = tuple(before)

    async def take_copies(self) -> None:
        """The statement is over. 0A000 if its functions have effects that cannot last."""
        session = self._session
        _, changed, wrote = await session.backend.run(EFFECTS.release, *self._changes)
        if changed.rows != self._before[0].rows:
            raise unsupported("a function that changes a lake table of its query")
        check_written(self._before[1], wrote)
        await session.backend.run(REFUSE_REWRITING)
        found = await session.backend.run(*map(_is_locked, self._copied))
        if any(result.rows for result in found):
            raise unsupported("a function that locks rows of a lake table")
        emptying = (catalog_calls.empty_shadow(oid, session.backend.process_id) for oid in self._copied)
        await session.backend.run(self._past_triggers, *chain.from_iterable(emptying), role_again(self._role))
        now = await versions(session, list(self._copied)) if self._read_again else self._copied
        if any(oid not in now or now[oid].files != version.files for oid, version in self._copied.items()):
            raise unsupported("a volatile function over a lake table that others change meanwhile")

    async def keep(self) -> None:
        """Restore the gateway's settings, and release the savepoint."""
        await self._session.backend.run(Statement(_WORKERS, (self._settings[1],)), TRIAL.release)


def _is_locked(relation: int) -> Statement:
    """The condition that the statement has locked a row of the shadow."""
    return Statement(of_shadow(relation, f"SELECT FROM {shadow_view(relation)} WHERE {LOCKED} LIMIT 1"))
