"""One change of schemas that a transaction block has deferred (`transactional_ddl`), and what it demands of rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from planner.syntax.lexer import tokens

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.backend.connection import Statement
    from gateway.transaction.ddl_sequences import OwnedSequence

_WORD: Final = re.compile(r"\w+")
# Words of changes that reach what they do not name.
_FAR: Final = tuple(map(frozenset, (("drop", "cascade"), ("owned",), ("privileges",), ("schema",))))
# First words of changes that may be about tables whose names they do not say.
_BROAD: Final = (["grant"], ["revoke"], ["reassign"], ["drop", "owned"], ["alter", "default"])


class Demands(Protocol):
    """What a change demands of rows that are there.

    Before the transaction's changes are settled each is asked to `prepare`, outside of a window. They are carried out
    in a window once more, and each is asked to `note` what it demands there, beside what is `noted` already. With all
    of them in place, each is asked to `merge` what others have done to files that it writes anew; only then to
    `look_again`, where its demands are still there and rows may have changed. `locking` is what has to be locked then,
    for all of them at once. Each is asked to `meet` its demands when it has been carried out for good. Of what was
    `rolled_back` something may be left in what it keeps.

    The files of the table that is `rewritten` are others from then on; tables that it `empties` have no rows.
    """

    @property
    def rewritten(self) -> int | None: ...

    @property
    def empties(self) -> frozenset[int]: ...

    @property
    def locking(self) -> Sequence[Statement]: ...

    async def prepare(self) -> None: ...

    def rolled_back(self) -> None: ...

    async def note(self, noted: set[tuple[int, int]]) -> None: ...

    async def merge(self) -> None: ...

    async def look_again(self) -> None: ...

    async def meet(self) -> None: ...


class NoDemands:
    """A change that no row has to be looked at for."""

    rewritten: int | None = None
    empties: frozenset[int] = frozenset()
    locking: Sequence[Statement] = ()

    async def prepare(self) -> None:
        """Nothing takes long."""

    def rolled_back(self) -> None:
        """Nothing is left of it."""

    async def note(self, noted: set[tuple[int, int]]) -> None:
        """It adds no constraint."""

    async def merge(self) -> None:
        """It writes no files."""

    async def look_again(self) -> None:
        """There was no look."""

    async def meet(self) -> None:
        """There is nothing to meet."""


@dataclass(frozen=True, slots=True)
class DeferredChange:
    """`statements` change tables. `own` is the mark of the transaction's own changes (SchemaMark) after it. `renames`:
    it may give names of tables free, or take them. `settings` are those that it was made under. It makes `sequences`,
    or has them begin from their start; one that `recounts` writes a sequence anew whose numbers go on from where others
    are: those taken from it in a window would be given out twice. `in_windows` stands for the statements there, where
    less will do. `savepoints`: how many the client had set by then. It `calls_users`' functions when it is carried out.
    It is SET CONSTRAINTS where it `sets_modes`.
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
    calls_users: bool = False
    sets_modes: bool = False

    def names(self, name: str) -> bool:
        """Whether a table's name stands in it, or may."""
        return any(table.name == name for table in self.tables) or any(
            name.lower() in statement.sql.lower() for statement in self.statements
        )

    def mentions(self, names: Iterable[str]) -> bool:
        """Whether any of these names stands in it, or may: they are compared word by word."""
        text = " ".join((*(each.sql for each in self.statements), *(each.name for each in self.tables))).lower()
        words = frozenset(_WORD.findall(text))
        if any(far <= words for far in _FAR):
            return True
        named = [(name.lower(), frozenset(_WORD.findall(name.lower()))) for name in names]
        return any(own <= words if own else name in text for name, own in named)

    @property
    def is_broad(self) -> bool:
        """Whether it may be about tables whose names it does not say."""
        beginnings = [[token.text for token in islice(tokens(each.sql), 2)] for each in self.statements]
        return any(words[: len(broad)] == broad for words in beginnings for broad in _BROAD)
