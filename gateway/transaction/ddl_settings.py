"""What PostgreSQL's settings were when a change of a schema was made that is deferred
(gateway/transaction/transactional_ddl.py).

It is carried out again and again, and must mean the same each time: names by the same search path, by the same role's
privileges, literals of dates in the same style. So before the transaction changes a setting, its value is kept with all
that is deferred by then; and what is carried out once more gets back what it was made under, for that time. NULL stands
for a setting that there was not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, MutableMapping, Sequence
from typing import Final

from gateway.backend.arrays import text_array
from gateway.backend.connection import Backend, Statement

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
# These do not change what a statement means; some of them are the gateway's own to set around it
# (gateway/backend/lock_backoff.py).
_MEANINGLESS: Final = frozenset(
    {
        "application_name", "client_encoding", "client_min_messages", "deadlock_timeout",
        "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "log_min_messages",
        "log_statement", "statement_timeout", "transaction_timeout",
    }
)  # fmt: skip
_OWN_PREFIX: Final = "sluice."
# What RESET ALL would change.
_RESETTABLE: Final = Statement(
    "SELECT name FROM pg_catalog.pg_settings WHERE NOT coalesce(setting OPERATOR(pg_catalog.=) reset_val,"
    " setting IS NULL AND reset_val IS NULL)"
    " AND NOT pg_catalog.pg_settings_get_flags(name)"
    " OPERATOR(pg_catalog.&&) ARRAY['NO_RESET', 'NO_RESET_ALL']"
    " AND (context OPERATOR(pg_catalog.=) 'user' OR pg_catalog.has_parameter_privilege(name, 'SET'))"
)
# As they stand in a call of current_setting.
_OF_USERS: Final = re.compile(r"'([^\W\d][\w$]*(?:\.[^\W\d][\w$]*)+)'")

Settings = MutableMapping[str, str | None]


class SettingsOfChanges:
    """A session's: which settings its blocks have changed beside what was deferred. Such a name is kept for good."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._names: set[str] = set()

    async def note(self, names: Iterable[str], earlier: Sequence[Settings]) -> None:
        """A statement that changes these comes next; `earlier` are the settings of what is deferred."""
        meant = {name for name in names if name not in _MEANINGLESS and not name.startswith(_OWN_PREFIX)}
        missing = {name for name in meant if any(name not in each for each in earlier)}
        if missing:
            present = await self._ask(missing)
            for each in earlier:
                each.update({name: value for name, value in present.items() if name not in each})
        self._names |= meant

    async def note_all(self, earlier: Sequence[Settings], texts: Iterable[str]) -> None:
        """RESET ALL comes next; `texts` are those of what is deferred, for PostgreSQL lists no settings of users."""
        [answer] = await self._backend.run(_RESETTABLE)
        listed = {(name or b"").decode() for (name,) in answer.rows}
        named = {name.lower() for text in texts for name in _OF_USERS.findall(text)}
        await self.note(listed | named | self._names, earlier)

    async def present(self) -> dict[str, str | None]:
        """What is made now is made under these."""
        return await self._ask(self._names) if self._names else {}

    async def _ask(self, names: Iterable[str]) -> dict[str, str | None]:
        [answer] = await self._backend.run(Statement(_PRESENT, (text_array(names),)))
        found: dict[str, str | None] = json.loads(answer.rows[0][0] or b"{}")
        return found


def under(settings: Settings, statements: Sequence[Statement]) -> list[Statement]:
    """What carries the statements out under these settings; afterwards they are as before."""
    if not settings:
        return list(statements)
    keep = Statement(_KEEP, (text_array(settings),))
    return [keep, Statement(_SET.format("$1"), (json.dumps(dict(settings)),)), *statements, _PUT_BACK]
