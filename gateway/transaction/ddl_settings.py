"""Restores PostgreSQL's settings for each repetition of a deferred schema change
(gateway/transaction/transactional_ddl.py).

A deferred change is executed repeatedly, and must mean the same each time: the same search path, the same role's
privileges, the same date style for literals. So before the transaction changes a setting, the present value is kept
with all deferred changes. Each repetition runs under the kept values. NULL stands for a setting that did not exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Final

from gateway.backend.arrays import text_array
from gateway.backend.connection import Backend
from gateway.backend.own_statement import Statement

_PRESENT: Final = (
    "SELECT pg_catalog.jsonb_object_agg(name, pg_catalog.current_setting(name, true))"
    " FROM pg_catalog.unnest($1::pg_catalog.text[]) name"
)
_KEEP: Final = f"SELECT pg_catalog.set_config('sluice.settings', (({_PRESENT}))::pg_catalog.text, true)"
_SET: Final = (
    "SELECT pg_catalog.set_config(each.key, each.value, true)"
    " FROM pg_catalog.jsonb_each_text({}::pg_catalog.jsonb) AS each"
    " WHERE each.value IS NOT NULL OR pg_catalog.current_setting(each.key, true) IS NOT NULL"
)
_PUT_BACK: Final = Statement(_SET.format("pg_catalog.current_setting('sluice.settings')"))
# These do not change a statement's meaning; the gateway sets some of them itself (gateway/backend/lock_backoff.py).
_MEANINGLESS: Final = frozenset(
    {
        "application_name", "client_encoding", "client_min_messages", "deadlock_timeout",
        "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "log_min_messages",
        "log_statement", "statement_timeout", "transaction_timeout",
    }
)  # fmt: skip
_OWN_PREFIX: Final = "sluice."

Settings = MutableMapping[str, str | None]


class SettingsOfChanges:
    """The settings that a session's blocks have changed after deferring changes. A name is kept until the session
    ends.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._names: set[str] = set()

    async def note(self, names: Iterable[str], earlier: Sequence[Settings]) -> None:
        """Before a statement that changes these settings; `earlier` are the settings of deferred changes."""
        meant = {name for name in names if name not in _MEANINGLESS and not name.startswith(_OWN_PREFIX)}
        missing = {name for name in meant if any(name not in each for each in earlier)}
        if missing:
            present = await self._ask(missing)
            for each in earlier:
                each.update({name: value for name, value in present.items() if name not in each})
        self._names |= meant

    async def present(self) -> dict[str, str | None]:
        """The present settings, for a new deferred change."""
        return await self._ask(self._names) if self._names else {}

    async def _ask(self, names: Iterable[str]) -> dict[str, str | None]:
        [answer] = await self._backend.run(Statement(_PRESENT, (text_array(names),)))
        found: dict[str, str | None] = json.loads(answer.rows[0][0] or b"{}")
        return found


def under(settings: Settings, statements: Sequence[Statement]) -> list[Statement]:
    """Statements that execute `statements` under these settings and restore the present ones."""
    if not settings:
        return list(statements)
    keep = Statement(_KEEP, (text_array(settings),))
    return [keep, Statement(_SET.format("$1"), (json.dumps(dict(settings)),)), *statements, _PUT_BACK]
