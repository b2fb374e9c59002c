"""Tracks which values of reported settings the client has been told by ParameterStatus.

PostgreSQL reports each changed setting once, before ReadyForQuery (guc.c, ReportChangedGUCOptions). The gateway's own
statements cause more reports from the backend than the client should see. So it keeps the backend's reports, and tells
the client the new values before its own ReadyForQuery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.wire.messages.backend import ParameterStatus


class ReportedSettings:
    """`known` has the backend's latest reports; the client is told all of them at the beginning."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._told = dict(known)

    def news(self) -> Iterator[ParameterStatus]:
        """The values that the client does not know yet; the caller must send them."""
        if self._told == self._known:
            return
        for name, value in self._known.items():
            if self._told.get(name) != value:
                self._told[name] = value
                yield ParameterStatus(name, value)
