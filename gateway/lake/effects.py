"""What the VOLATILE functions of a query do that PostgreSQL computes over copied rows: it lasts, and the copies do not.

They are made by users, or PostgreSQL's own that lock, notify and set (`planner.computable.lasting_functions`).

Nothing is undone: the copies are put into the shadows past all triggers, and taken out again once the query is over.
What the functions do elsewhere is then PostgreSQL's own, with its errors. What they do with the lake cannot be: where
they have changed the copies or locked any, or written another table of the lake, it is refused after the fact.

The shadows stay locked until the transaction ends, as PostgreSQL's tables would.

At READ COMMITTED, each statement in such a function sees what has been committed by then. So others may not have
changed the tables of the query meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from catalog.errors import unsupported
from catalog.model import TableVersion
from gateway.arrays import number_array
from gateway.backend import Statement
from gateway.lake.guarded import REFUSE_REWRITING, check_written, written
from gateway.visibility import versions

if TYPE_CHECKING:
    from gateway.backend import Result
    from gateway.exchange import Exchange

_BEGIN: Final = Statement("SAVEPOINT pg_sluice_effects")
_END: Final = Statement("RELEASE SAVEPOINT pg_sluice_effects")
_KEEP: Final = Statement("RELEASE SAVEPOINT pg_sluice")
_SETTINGS: Final = Statement(
    "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('max_parallel_workers_per_gather')"
)
_IDLE: Final = "SELECT set_config('idle_in_transaction_session_timeout', $1, true)"
_WORKERS: Final = "SELECT set_config('max_parallel_workers_per_gather', $1, true)"
_ROLE: Final = "SELECT pg_sluice.set_replication_role($1, $2)"
_CHANGES: Final = "SELECT pg_sluice.shadow_changes($1::oid[])"
_TAKE: Final = "SELECT pg_sluice.take_copies($1, $2::bigint::oid)"


class LastingEffects:
    """`begin` before anything is set and copied, `end_copying` before the statement, `take_copies` after it, `keep`."""

    def __init__(self, session: Exchange, copied: Mapping[int, TableVersion], *, read_again: bool) -> None:
        """`read_again`: functions may read the tables of the query by themselves."""
        self._session = session
        self._read_again = read_again
        self._copied = copied
        self._changes = Statement(_CHANGES, (number_array(copied),)), written(copied)
        self._settings: list[bytes | None] = []
        self._role: bytes | None = None
        self._before: tuple[Result, ...] = ()

    async def begin(self) -> None:
        """The savepoint has begun that the rows are to be copied in."""
        role = Statement(_ROLE, (self._session.gateway.token, "local"))
        settings, before = await self._session.backend.run(_SETTINGS, role)
        self._settings, [[self._role]] = list(settings.rows[0]), before.rows

    async def end_copying(self) -> None:
        """All rows are copied, the client's statement is next."""
        role = Statement(_ROLE, (self._session.gateway.token, self._role))
        idle = Statement(_IDLE, (self._settings[0],))
        _, _, *before, _ = await self._session.backend.run(role, idle, *self._changes, _BEGIN)
        self._before = tuple(before)

    async def take_copies(self) -> None:
        """The statement is over. 0A000 where its functions have done what cannot last."""
        session, token = self._session, self._session.gateway.token
        _, changed, wrote = await session.backend.run(_END, *self._changes)
        if changed.rows != self._before[0].rows:
            raise unsupported("a function that changes a lake table of its query")
        check_written(self._before[1], wrote)
        await session.backend.run(REFUSE_REWRITING)
        taken = await session.backend.run(*(Statement(_TAKE, (token, str(oid))) for oid in self._copied))
        if any(result.rows[0][0] != b"t" for result in taken):
            raise unsupported("a function that locks rows of a lake table")
        now = await versions(session, list(self._copied)) if self._read_again else self._copied
        if any(oid not in now or now[oid].files != version.files for oid, version in self._copied.items()):
            raise unsupported("a volatile function over a lake table that others change meanwhile")

    async def keep(self) -> None:
        """All is done: what the gateway has set is as it was, and the savepoint is no more."""
        await self._session.backend.run(Statement(_WORKERS, (self._settings[1],)), _KEEP)
