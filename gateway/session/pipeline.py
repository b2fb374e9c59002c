"""Tracks relayed messages of the extended protocol until they are answered, with their changes of names."""

from __future__ import annotations

from collections import deque
from typing import Final

from gateway.session.name_journal import Journal
from gateway.wire.framing import Frame
from gateway.wire.messages import backend as answers
from gateway.wire.messages import frontend

# The answer that ends each relayed message.
_ENDS: Final = {
    frontend.Parse.type: (answers.ParseComplete.type,),
    frontend.Bind.type: (answers.BindComplete.type,),
    frontend.Close.type: (answers.CloseComplete.type,),
    frontend.Describe.type: (answers.RowDescription.type, answers.NoData.type),
    frontend.Execute.type: (
        answers.CommandComplete.type,
        answers.EmptyQueryResponse.type,
        answers.PortalSuspended.type,
    ),
}


class Pipeline:
    """True while answers are outstanding. PostgreSQL skips messages after an error; the name changes of these, and of
    the failed message, are undone.
    """

    def __init__(self) -> None:
        self.journal = Journal()
        self._mark = 0  # the journal's length when the present message began
        self._outstanding: deque[tuple[tuple[int, ...], int]] = deque()  # each message's ends, with its mark

    def __bool__(self) -> bool:
        return bool(self._outstanding)

    def begin(self) -> None:
        """Begin a message. If all before it are answered, their changes are final."""
        self._mark = len(self.journal)
        self._keep()

    def sent(self, frame: Frame) -> None:
        """The present message was relayed."""
        self._outstanding.append((_ENDS[frame.type], self._mark))

    def answered(self, frame: Frame) -> None:
        """Handle an answer of the backend: the oldest message has succeeded or failed."""
        if not self._outstanding:
            return
        ends, mark = self._outstanding[0]
        if frame.type == answers.ErrorResponse.type:
            self._outstanding.clear()
            self.journal.undo(mark)
        elif frame.type in ends:
            self._outstanding.popleft()
            self._keep()

    def _keep(self) -> None:
        self.journal.keep(self._outstanding[0][1] if self._outstanding else self._mark)

    def fail(self) -> None:
        """The present message has failed without being relayed."""
        self.journal.undo(self._mark)

    def end(self) -> None:
        """Sync, and so every message before it, was answered."""
        self._outstanding.clear()
