"""The notice by which a session's own schema change is told to its gateway (write_update in
catalog/sql/synchronisation.sql).
"""

from __future__ import annotations

from typing import Final

from gateway.wire.framing import Frame
from gateway.wire.messages.backend import NoticeResponse

_SQLSTATE: Final = b"CSLU01\x00"
_NUMBER_LENGTH_MAX: Final = 19


def schema_change(frame: Frame) -> int | None:
    """The number of the session's own schema change, if the message has one (`pg_sluice.publish`). A client that
    raises such a message delays only itself.
    """
    if frame.type != NoticeResponse.type or _SQLSTATE not in frame.head:
        return None
    number = dict(NoticeResponse.decode(frame.body, strict=False).fields).get("D", "")
    return int(number) if number.isdecimal() and len(number) < _NUMBER_LENGTH_MAX else None
