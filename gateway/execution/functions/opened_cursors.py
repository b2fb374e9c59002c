"""Cursors that functions leave open."""

from __future__ import annotations

from typing import Final

from catalog.errors import unsupported
from gateway.backend.connection import Result
from gateway.backend.own_names import OWN
from gateway.backend.own_statement import Statement
from gateway.session.cursors import CREATED

CURSORS: Final = Statement(
    f"SELECT name, {CREATED}, is_holdable FROM pg_catalog.pg_cursors"
    " WHERE pg_catalog.length(name) OPERATOR(pg_catalog.>) 0"
    f" AND NOT pg_catalog.starts_with(name, '{OWN}') ORDER BY name"
)


def opened(before: Result, now: Result) -> list[tuple[bytes | None, ...]]:
    """The cursors that a statement has left open, by the answers to `CURSORS` around it. 0A000 for one that would read
    the rest of its rows at COMMIT."""
    left_open = [row for row in now.rows if row not in set(before.rows)]
    if any(is_holdable == b"t" for *_, is_holdable in left_open):
        raise unsupported("a cursor WITH HOLD from within a function")
    return left_open
