"""How often a block's deferred changes are carried out at its end (gateway/transaction/transactional_ddl.py)."""

from __future__ import annotations

from typing import cast

import pytest

from gateway.backend.connection import Backend, Result
from gateway.backend.own_statement import Statement
from gateway.transaction.ddl_change import DeferredChange, NoDemands
from gateway.transaction.enlistment import Enlistment
from gateway.transaction.transactional_ddl import DeferredChanges


class _Backend:
    """Records the changes that are carried out, by message."""

    def __init__(self) -> None:
        self.status = b"T"
        self.repeated: list[Statement] | None = None
        self.savepoints: list[str] = []
        self.messages: list[str] = []

    async def run(self, *statements: Statement) -> list[Result]:
        changes = " ".join(each.sql for each in statements if len(each.sql) == 1)
        self.messages += [changes] if changes else []
        return [Result(rows=[(b"0", b"0", b"0", b"0")]) for _ in statements]


class _Enlistment:
    def alter(self, table_ids: frozenset[int]) -> None:
        """No table."""


class _Met(NoDemands):
    """Demands that say when they are asked."""

    def __init__(self, backend: _Backend, *, are_none: bool) -> None:
        self._backend = backend
        self.are_none = are_none

    async def look_again(self) -> None:
        self._backend.messages.append("look again")

    async def meet(self) -> None:
        self._backend.messages.append("meet")


async def _settled(free: str) -> list[str]:
    """The messages that settle these changes, named by letters: a capital one has no demands."""
    backend = _Backend()
    changes = DeferredChanges(cast(Backend, backend), cast(Enlistment, _Enlistment()))
    for letter in free:
        changes.defer(
            DeferredChange(
                statements=(Statement(letter),),
                tables=(),
                own=1,
                renames=False,
                demands=_Met(backend, are_none=letter.isupper()),
                settings={},
            )
        )
    await changes.settle()
    return backend.messages


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ("ABC", ["A B C", "meet"]),
        ("a", ["a", "look again", "a", "meet"]),
        (
            "ABcdE",
            ["A B", "c", "d", "E", *["look again"] * 5, "A B", "meet", "c", "meet", "d", "meet", "E", "meet"],
        ),
    ],
)
async def test_changes_without_demands_go_together_and_once(changes: str, messages: list[str]) -> None:
    assert await _settled(changes) == messages
