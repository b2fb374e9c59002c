"""What the client has been told of the settings that PostgreSQL reports.

PostgreSQL says what has changed once for each setting, before ReadyForQuery (guc.c, ReportChangedGUCOptions). The
gateway has more of these from its backend than the client is to see, for it asks questions of its own: so it keeps what
the backend says, and tells the client what is new when its own ReadyForQuery comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.wire.messages.backend import ParameterStatus


class ToldSettings:
    """`known` is what the backend has said, always up to date; at the beginning the client is told all of it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._told = dict(known)

    def news(self) -> Iterator[ParameterStatus]:
        """What the client does not know yet; whoever asks tells it."""
        if self._told == self._known:
            return
        for name, value in self._known.items():
            if self._told.get(name) != value:
                self._told[name] = value
                yield ParameterStatus(name, value)
