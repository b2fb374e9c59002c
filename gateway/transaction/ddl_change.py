"""A schema change that a transaction block has deferred (`transactional_ddl`), and its demands on existing rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from planner.syntax.lexer import tokens
from planner.tree.long_text import holds_word

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.own_statement import Statement
    from gateway.transaction.ddl_sequences import OwnedSequence

_WORD: Final = re.compile(r"\w+")
# Characters of texts in which words are looked for: finding those of a longer one stops all other sessions.
_LENGTH_MAX: Final = 65_536
# Words of changes that affect objects which they do not name.
_FAR: Final = tuple(map(frozenset, (("drop", "cascade"), ("owned",), ("privileges",), ("schema",))))
# First words of changes that may affect tables which they do not name.
_BROAD: Final = (["grant"], ["revoke"], ["reassign"], ["drop", "owned"], ["alter", "default"])


class Demands(Protocol):
    """What a change demands of existing rows.

    Once the change is deferred, outside of a window, they `make` the checks of its execution. Before the transaction's
    changes are settled, each is asked to `prepare`, outside of a window. They then run in a
    window once more, and each is asked to `note` its demands there, in addition to those in `noted`. With all changes
    in place, each is asked to `merge` concurrent changes of files that it rewrites. Only then it is asked to
    `look_again`, if its demands remain and rows may have changed; `locking` are the locks for that, taken for all at
    once. Each is asked to `meet` its demands after its final execution. `rolled_back` cleans up what a change may have
    kept.

    The table that is `rewritten` gets new files; tables that it `empties` have no rows. `are_none`: nothing is demanded
    but what `meet` finds, so that only `meet` need be asked, and once for neighbours.
    """

    @property
    def are_none(self) -> bool: ...

    @property
    def rewritten(self) -> int | None: ...

    @property
    def empties(self) -> frozenset[int]: ...

    @property
    def locking(self) -> Sequence[Statement]: ...

    async def make(self) -> None: ...

    async def prepare(self) -> None: ...

    def rolled_back(self) -> None: ...

    async def note(self, noted: set[tuple[int, int]]) -> None: ...

    async def merge(self) -> None: ...

    async def look_again(self) -> None: ...

    async def meet(self) -> None: ...


class NoDemands:
    """The demands of a change that concerns no rows."""

    are_none = True
    rewritten: int | None = None
    empties: frozenset[int] = frozenset()
    locking: Sequence[Statement] = ()

    async def make(self) -> None:
        """There is no row to check."""

    async def prepare(self) -> None:
        """Nothing takes long."""

    def rolled_back(self) -> None:
        """It has kept nothing."""

    async def note(self, noted: set[tuple[int, int]]) -> None:
        """It adds no constraint."""

    async def merge(self) -> None:
        """It writes no files."""

    async def look_again(self) -> None:
        """It has checked no rows."""

    async def meet(self) -> None:
        """It demands nothing."""


@dataclass(frozen=True, slots=True)
class DeferredChange:
    """A deferred change: `statements` change tables. `own` is the mark of the transaction's own changes (SchemaMark)
    after it. `renames`: it may remove or reuse names of tables. `settings` are the settings at its first execution. It
    makes `sequences`, or restarts them. One that `recounts` rewrites a sequence in use, whose numbers continue:
    numbers taken from it in a window would be given out twice. `in_windows` replaces the statements in windows, if
    fewer suffice. `savepoints`: how many savepoints the client had set before it. `sets_modes`: it is
    SET CONSTRAINTS.
    """

    statements: tuple[Statement, ...]
    tables: tuple[Table, ...]
    own: int
    renames: bool
    demands: Demands
    settings: dict[str, str | None]
    sequences: tuple[OwnedSequence, ...] = ()
    recounts: bool = False
    in_windows: tuple[Statement, ...] | None = None
    savepoints: int = 0
    sets_modes: bool = False

    def names(self, name: str) -> bool:
        """Whether it contains, or may contain, a table's name."""
        return any(table.name == name for table in self.tables) or any(
            holds_word(statement.sql, name.lower()) for statement in self.statements
        )

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether it contains, or may contain, one of these names, which are compared word by word."""
        if self.is_long:
            return True
        text = " ".join((*(each.sql for each in self.statements), *(each.name for each in self.tables))).lower()
        words = frozenset(_WORD.findall(text))
        if any(far <= words for far in _FAR):
            return True
        named = [(name.lower(), frozenset(_WORD.findall(name.lower()))) for name in names]
        return any(own <= words if own else name in text for name, own in named)

    @property
    def is_long(self) -> bool:
        """Whether its text is too long to look for words in it."""
        return sum(len(each.sql) for each in self.statements) > _LENGTH_MAX

    @property
    def is_broad(self) -> bool:
        """Whether it may affect tables that it does not name."""
        beginnings = [[token.text for token in islice(tokens(each.sql), 2)] for each in self.statements]
        return any(words[: len(broad)] == broad for words in beginnings for broad in _BROAD)
