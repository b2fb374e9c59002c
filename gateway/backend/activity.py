"""What pg_stat_activity shows of a session: the client's statement, not the gateway's statements for it.

PostgreSQL shows the text of the message that a backend carries out. The gateway's statements carry the client's text
in a comment, and the view takes it out again (catalog/sql/reflection.sql). So nobody asks or waits for it, and
PostgreSQL hides it from the roles from which it hides the text of any message.
"""

from __future__ import annotations

import time
from typing import Final

from gateway.backend.own_message import MARK
from gateway.wire.framing import HEADER_BYTES, Frame

# With the comments around it, the text fits into track_activity_query_size (1 kB by default).
SHOWN_MAX: Final = 940
# It stands between characters that would begin or end a comment; behind a character of its kind there is the other.
_BETWEEN: Final = "\x01"
_KEPT: Final = "\x01\x02"
# What the end of a text that was cut within a character may have become.
_CUT: Final = "\ufffd"


def beginning(frame: Frame, *, after: int = 0, skipped: int = 0) -> bytes:
    """The beginning of a text in a message, `after` so many other texts and `skipped` bytes."""
    start = HEADER_BYTES + skipped
    for _ in range(after):
        end = frame.data.find(b"\0", start, start + SHOWN_MAX)
        if end < 0:
            return b""  # no name is as long
        start = end + 1
    return bytes(frame.data[start : start + SHOWN_MAX]).partition(b"\0")[0]


class Activity:
    """The client's statement that a backend works for, and when it came."""

    def __init__(self) -> None:
        self._text: str | bytes = b""
        self._since = 0.0
        self._comment: bytes | None = None
        # The portal that it is bound as.
        self.portal: bytes | None = None

    def show(self, text: str | bytes, portal: bytes | None = None) -> None:
        """From now on the backend works for this statement; without a text, for one that only PostgreSQL knows."""
        self._text, self._since, self._comment, self.portal = text, time.time(), None, portal

    def comment(self, *, in_utf8: bool) -> bytes:
        """The comment for a statement of the gateway; empty if the text may not be in UTF-8."""
        if self._comment is None:
            self._comment = self._made() if self._text else b""
        return self._comment if in_utf8 or self._comment.isascii() else b""

    def _made(self) -> bytes:
        text = self._text[:SHOWN_MAX]
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        shown = shown.replace(_BETWEEN, _KEPT).replace("/*", f"/{_BETWEEN}*").replace("*/", f"*{_BETWEEN}/")
        whole = shown.encode("utf-8", "replace")[:SHOWN_MAX].decode("utf-8", "ignore").rstrip(_CUT)
        return f"{MARK}as {self._since:.6f} {whole} */ ".encode()
