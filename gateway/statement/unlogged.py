"""Makes ordinary tables of UNLOGGED ones, and warns the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.backend.own_statement import Statement
from gateway.session.offload import offloaded
from gateway.wire.framing import Frame
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import NoticeResponse
from planner.syntax.unlogged import as_logged

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

CLIENT_MIN_MESSAGES: Final = Statement("SHOW client_min_messages")
_QUIET: Final = frozenset({b"warning", b"error"})
_TEXT: Final = "a table is never UNLOGGED here: it is an ordinary one, which a crash does not empty"
_NOTICE: Final = NoticeResponse((("S", "NOTICE"), ("V", "NOTICE"), ("C", "00000"), ("M", _TEXT)))


async def logged(session: SessionContext, text: str) -> str | None:
    """The client's text without UNLOGGED; None if it has none, or if the transaction has failed."""
    if session.backend.status == b"E":
        return None
    standard = session.backend.parameters.get("standard_conforming_strings", "on") == "on"
    return await offloaded(session, len(text), partial(as_logged, text, standard_strings=standard))


async def read_logged(
    session: SessionContext, frame: Frame, settle: Callable[[], Awaitable[bool]]
) -> tuple[frontend.Parse, Frame] | None:
    """The client's Parse without UNLOGGED; None if an earlier message has failed."""
    message = await session.encoding.read(frontend.Parse, frame)
    instead = await logged(session, message.query)
    if instead is None:
        return message, frame
    if not await settle():
        return None
    await tell(session)
    message = replace(message, query=instead)
    return message, Frame(frame.type, await session.encoding.encoded(message))


async def tell(session: SessionContext) -> None:
    """Tell the client that the table is logged. The backend must be able to answer."""
    [level] = await session.backend.run(CLIENT_MIN_MESSAGES, sync=session.simple)
    if level.rows[0][0] not in _QUIET:
        session.client.send(_NOTICE)
