"""The words of a statement and of the functions that it names, and what is known of their effects.

They are kept by role and text, for a mark of all functions (`pg_sluice.code_mark`): reading the functions' texts again
takes as long as a small function.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog.schema.triggers import TEXT_MAX, KeptText
from gateway.execution.filling import effects_beside
from gateway.execution.reading.function_tables import Words, words_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from gateway.backend.connection import Result
    from gateway.session.session_context import SessionContext

_WORDS_MAX: Final = 300
_NUMBERING: Final = frozenset({"nextval", "setval", "insert", "merge", "update", "delete"})


class StatementWords:
    """`words` are those of the texts, `quiet` those of texts that were found to have no effects but on rows."""

    def __init__(self, session: SessionContext, sql: str) -> None:
        self._session = session
        self._sql = sql
        self.words = Words(frozenset(), are_all=False)
        self.quiet = frozenset[str]()

    @property
    def key(self) -> tuple[str, str]:
        """The role and the text."""
        return self._session.user, self._sql

    @property
    def is_kept(self) -> bool:
        """Whether something may be kept in mind of the statement."""
        return len(self._sql) <= TEXT_MAX and len(self.words.found) <= _WORDS_MAX

    @property
    def expected(self) -> Words | None:
        """The words that are kept of the text, unless functions have changed since."""
        kept = self._session.gateway.store.triggers.texts.get(self.key)
        return None if kept is None else Words(kept.words, are_all=True)

    async def find(self, code: Result, texts: Callable[[], Awaitable[list[str]]], *, keeps: bool) -> bool:
        """Find the words of these texts; `code` is the answer to `CODE`. With `keeps`, the text alone decides about
        them. Return whether they are those that were `expected`."""
        session, kept_texts = self._session, self._session.gateway.store.triggers.texts
        kept = kept_texts.get(self.key)
        if kept is not None and kept.code == code.rows[0]:
            self.words, self.quiet = Words(kept.words, are_all=True), kept.quiet
            return True
        self.words = await words_of(session, await texts())
        if keeps and self.is_kept and self.words.are_all:
            kept_texts[self.key] = KeptText(code.rows[0], self.words.found)
        return False

    def note_quiet(self, words: Iterable[str]) -> None:
        """Keep in mind that texts of these words have no effects but on rows."""
        texts = self._session.gateway.store.triggers.texts
        if self.key in texts and not self.quiet.issuperset(words):
            texts[self.key] = replace(texts[self.key], quiet=frozenset(words))

    def forget(self) -> None:
        """Keep nothing in mind: a text has done what was not expected."""
        self._session.gateway.store.triggers.texts.pop(self.key, None)

    @property
    def leaves_nothing(self) -> bool:
        """Whether no text takes numbers of sequences, or makes rows that might."""
        return not any(word.rpartition(".")[2] in _NUMBERING for word in self.words.found)

    @property
    def may_name(self) -> bool:
        """Whether a text may do more than use rows: change a schema, open cursors, name prepared statements."""
        words = self.words
        known = self.quiet >= words.found and not effects_beside.names_counted(words.found)
        return not known or words.may_do_more or words.may_build
