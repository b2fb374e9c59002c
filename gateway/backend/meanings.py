"""Whether names at a session's backend still mean what they meant: what is known of statements over temporary tables.

Only the session itself makes and drops its temporary tables, changes its search_path, its role and its settings. So
all that a client has PostgreSQL execute *disturbs* what is known, but for what is listed where it is executed: queries
and changes of rows without functions that do more, and commands that begin, end or mark a transaction. What was known
within a transaction that was disturbed is not known behind its end, which may undo the disturbance, or drop tables.

Other sessions make tables, which the names of a statement might mean if a temporary table went that they mean now. They
hear of new tables of the lake before the client who made them does (catalog/schema/synchronisation.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from gateway.backend.connection import Backend

# What is kept at most, in entries.
_KEPT_MAX: Final = 200
_OWN_MAX: Final = 1_000


class Epoch(NamedTuple):
    """A time in which names keep their meaning; equal values are one time."""

    disturbances: int
    is_within: bool  # the transaction that was disturbed has not ended
    search_path: str
    heard: int  # changes of schemas that the gateway had heard of


class Told(NamedTuple):
    """What PostgreSQL told of the tables of a statement: whether functions of users run when it is executed, and
    whether all tables are temporary and no other table has one of their names.
    """

    runs_functions: bool
    is_temporary: bool


class Meanings:
    """What a session knows of statements that name temporary tables alone; `heard` counts changes of schemas."""

    def __init__(self, backend: Backend, heard: Callable[[], int]) -> None:
        self._backend = backend
        self._heard = heard
        self._disturbances = 0
        self._disturbed_at = -1
        self._kept_at: Epoch | None = None
        self._told: dict[object, Told] = {}
        self._shapes: set[tuple[str, ...]] = set()
        self._own: set[int] = set()

    def disturb(self) -> None:
        """The client has something executed that may change what names mean."""
        self._disturbances += 1
        self._disturbed_at = self._backend.ended_transactions

    @property
    def epoch(self) -> Epoch:
        """The present one."""
        is_within = self._backend.ended_transactions == self._disturbed_at
        path = self._backend.parameters.get("search_path", "")
        return Epoch(self._disturbances, is_within, path, self._heard())

    def told(self, question: object) -> Told | None:
        """What PostgreSQL told in answer to that question, if it still holds."""
        return self._told.get(question) if self._kept_at == self.epoch else None

    def tell(self, question: object, told: Told, asked_at: Epoch) -> None:
        """Keep an answer to what was asked at that time."""
        self._keep(asked_at)
        self._told[question] = told

    def knows(self, shape: tuple[str, ...]) -> bool:
        """Whether a statement of that shape names temporary tables alone (planner/syntax/insert_shape.py)."""
        return shape in self._shapes and self._kept_at == self.epoch

    def learn(self, shape: tuple[str, ...] | None, temporary_at: Epoch | None) -> None:
        """Keep the shape of a statement, if it has one and named temporary tables alone at that time."""
        if shape is not None and temporary_at is not None:
            self._keep(temporary_at)
            self._shapes.add(shape)

    def _keep(self, epoch: Epoch) -> None:
        if self._kept_at != epoch or len(self._told) + len(self._shapes) >= _KEPT_MAX:
            self._told.clear()
            self._shapes.clear()
            self._kept_at = epoch

    def note_own(self, oids: frozenset[int]) -> None:
        """Note relations that are the session's temporary ones. They are until they are dropped."""
        if len(self._own) + len(oids) > _OWN_MAX:
            self._own.clear()
        self._own |= oids

    def are_own(self, oids: frozenset[int]) -> bool:
        """Whether all of these are known to be temporary."""
        return oids <= self._own
