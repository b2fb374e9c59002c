"""The protocol's FunctionCall (PQfn): PostgreSQL calls the function, unless that runs code of users.

Drivers call PostgreSQL's own functions so, for large objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.datatypes import FIRST_USER_OID
from catalog.errors import unsupported
from gateway.wire.framing import HEADER_BYTES, Frame
from planner.tree.references import RUNS_SQL

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_OID_BYTES: Final = 4
# PostgreSQL's functions that read values of any type, of domains too, whose CHECKs may call functions of users.
_READERS: Final = frozenset(
    f"{kind}_{how}"
    for kind in ("array", "domain", "multirange", "range", "record")
    for how in ("in", "recv", "out", "send")
)


async def call_function(session: SessionContext, frame: Frame) -> None:
    """Relay the message and its answers. 0A000 for code of users, which would find lake tables empty."""
    if session.backend.status != b"E" and _runs_users(session, frame):
        raise unsupported("a function that runs code of users, called by the protocol's FunctionCall")
    await session.relay_query(frame.data)


def _runs_users(session: SessionContext, frame: Frame) -> bool:
    oid = int.from_bytes(frame.data[HEADER_BYTES : HEADER_BYTES + _OID_BYTES], "big")
    known = session.gateway.builtins.functions.get(oid)
    return oid >= FIRST_USER_OID or (known is not None and known.name in RUNS_SQL | _READERS)
