"""Waits until other gateways know a schema change, and tells the client of a shutdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.backend import NoticeResponse

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext


async def spread(session: SessionContext) -> None:
    """Before the client gets the answer to a schema change: wait until all gateways know it."""
    version = session.backend.aside.changed_schema
    if version is None or session.backend.status != b"I":
        return
    session.backend.aside.changed_schema = None
    if not await session.gateway.gateways.settled(version):
        fields = {"S": "WARNING", "V": "WARNING", "C": "01000"}
        said = "the change of the schema is committed, but other gateways may not know of it yet"
        session.client.send(NoticeResponse((*fields.items(), ("M", said))))


def shut_down() -> SluiceError:
    """The FATAL error of a gateway that shuts down."""
    return SluiceError(SqlState.ADMIN_SHUTDOWN, "terminating connection due to administrator command", severity="FATAL")
