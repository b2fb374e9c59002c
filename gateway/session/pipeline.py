"""The relayed messages of the extended protocol whose answers are still to come, and what they have changed by name."""

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
    """True while answers are still to come. After an error PostgreSQL skips the messages behind it: what these, and the
    one that failed, have changed is undone."""

    def __init__(self) -> None:
        self.journal = Journal()
        self._mark = 0  # the journal's length when the message under way was begun
        self._outstanding: deque[tuple[tuple[int, ...], int]] = deque()  # what ends each, and its mark

    def __bool__(self) -> bool:
        return bool(self._outstanding)

    def begin(self) -> None:
        """A message is taken up. Where all before it are answered, what they have changed stays."""
        self._mark = len(self.journal)
        self._keep()

    def sent(self, frame: Frame) -> None:
        """The message under way was relayed."""
        self._outstanding.append((_ENDS[frame.type], self._mark))

    def answered(self, frame: Frame) -> None:
        """The backend has said this: the oldest message has been carried out, or it has failed."""
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
        """The message under way, which was not relayed, has failed."""
        self.journal.undo(self._mark)

    def end(self) -> None:
        """Sync has been answered, and so have all before it."""
        self._outstanding.clear()
