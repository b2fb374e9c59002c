"""Messages that PostgreSQL sends with a client's and that are for the gateway alone.

One tells a session's own schema change (write_update in catalog/sql/synchronisation.sql). Others are the plans that
PostgreSQL prints, while they are asked for: at level LOG, which lets messages through that the client did not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from gateway.wire.framing import Frame
from gateway.wire.messages.backend import NoticeResponse

_CHANGE: Final = b"CSLU01\x00"
_NUMBER_LENGTH_MAX: Final = 19
_SEVERITY: Final = re.compile(rb"\0V([A-Z]+)\0")
_PLAN: Final = b"\0Mplan:\0D"
# The file and routine of PostgreSQL that print a tree. RAISE has others, which no client can choose.
PRINTED_BY: Final = ("print.c", "elog_node_display")
_PRINTED: Final = re.compile(r"\0F{}\0L\d+\0R{}\0\0\Z".format(*map(re.escape, PRINTED_BY)).encode())
_TAIL_BYTES: Final = 100
PLANS_MAX: Final = 200
_PLAN_BYTES_MAX: Final = 4 << 20


@dataclass(slots=True)
class PrintedPlans:
    """The plans that PostgreSQL has printed, as texts. The client gets no messages of severities in `hidden`.

    They are not `complete` if there were more than are worth reading.
    """

    hidden: Collection[bytes]
    texts: list[bytes] = field(default_factory=list)
    complete: bool = True
    _size: int = 0

    def takes(self, frame: Frame) -> bool:
        """Whether the client does not get this notice; a plan is kept."""
        severity = _SEVERITY.search(frame.head)
        if severity is None or severity.group(1) not in self.hidden:
            return False
        place = frame.head.find(_PLAN)
        if place >= 0 and _PRINTED.search(frame.data[-_TAIL_BYTES:]):
            self._keep(frame.data, place + len(_PLAN))
        return True

    def _keep(self, data: bytes, start: int) -> None:
        self._size += len(data)
        self.complete = self.complete and len(self.texts) < PLANS_MAX and self._size <= _PLAN_BYTES_MAX
        if self.complete:
            self.texts.append(bytes(data[start : data.index(b"\0", start)]))


class MessagesAside:
    """Takes the gateway's messages out of those for the client.

    `changed_schema` is the latest schema update published here that other gateways must know. `plans` are set while
    PostgreSQL prints plans.
    """

    def __init__(self) -> None:
        self.changed_schema: int | None = None
        self.plans: PrintedPlans | None = None

    def takes(self, frame: Frame) -> bool:
        """Whether the client does not get the message."""
        if frame.type != NoticeResponse.type:
            return False
        if (number := schema_change(frame)) is not None:
            self.changed_schema = number
            return True
        return self.plans is not None and self.plans.takes(frame)


def schema_change(frame: Frame) -> int | None:
    """The number of the session's own schema change, if the message has one (`pg_sluice.publish`). A client that
    raises such a message delays only itself.
    """
    if frame.type != NoticeResponse.type or _CHANGE not in frame.head:
        return None
    number = dict(NoticeResponse.decode(frame.body, strict=False).fields).get("D", "")
    return int(number) if number.isdecimal() and len(number) < _NUMBER_LENGTH_MAX else None
