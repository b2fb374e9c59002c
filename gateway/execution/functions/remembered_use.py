"""Remembers the tables whose rows a statement with functions has turned out to use, for the same role and text alone.

The next one has them copied before it runs. A role that has lost a right since learns so from PostgreSQL, and what was
remembered for it is forgotten: it holds no table any more that it may not name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from catalog.schema.triggers import TEXT_MAX

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


def used_before(session: SessionContext, sql: str) -> frozenset[int]:
    """The tables, by OID."""
    return session.gateway.store.triggers.used.get((session.user, sql), frozenset())


def note_used(session: SessionContext, sql: str, oids: Collection[int]) -> None:
    """Remember these, too."""
    if oids and len(sql) <= TEXT_MAX:
        used, key = session.gateway.store.triggers.used, (session.user, sql)
        used[key] = used.get(key, frozenset()) | frozenset(oids)


@contextmanager
def forgetting(session: SessionContext, sql: str) -> Iterator[None]:
    """While the statement runs with what is remembered: forget that if it lacks a right."""
    try:
        yield
    except SluiceError as error:
        if error.sqlstate == SqlState.INSUFFICIENT_PRIVILEGE:
            session.gateway.store.triggers.used.pop((session.user, sql), None)
        raise
