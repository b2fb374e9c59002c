"""Serves clients of the databases `postgres` and `template1` of the embedded catalog, which hold no lake.

Tools go there to ask what databases there are, to make one or to drop it. It is PostgreSQL's own session, under the
client's own role, and what it says goes as it is; there is nothing of the lake, and clients may make hardly anything
that lasts. In place of what would make another database, or drop the lake's, the backend is given something that fails.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from catalog.background import end
from catalog.errors import SluiceError
from gateway.backend.connection import Backend, BackendLostError
from gateway.client.connection import Client, ClientGoneError
from gateway.client.message_thread import aside
from gateway.wire.framing import HEADER_BYTES, Frame
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ErrorResponse, ReadyForQuery
from planner.syntax.databases import refused

_CONTEXT: Final = b"\0WPL/pgSQL function inline_code_block line 1 at RAISE\0"
OTHER_DATABASES: Final = frozenset({"postgres", "template1"})
_NAMED: Final = OTHER_DATABASES | {"template0"}


class OtherDatabaseSession:
    """Passes messages on in both directions, until one side ends."""

    def __init__(self, client: Client, backend: Backend, lake: str) -> None:
        self._client = client
        self._backend = backend
        self._lake = lake
        self._refusals: set[str] = set()
        self.is_idle = True

    async def run(self) -> None:
        """Serve until the client goes, and what it has asked for is done: so long it has the place of a session. Raises
        BackendLostError when the catalog goes."""
        asking, answering = asyncio.create_task(self._ask()), asyncio.create_task(self._answer())
        try:
            await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self._backend.send_end()
                with suppress(BackendLostError):
                    await answering
                asking.result()
                return
            if isinstance(answering.exception(), ClientGoneError):
                await self._end()
            answering.result()
        finally:
            await end(asking)
            await end(answering)

    async def _end(self) -> None:
        """The client has gone: cancel what the backend carries out, and read to its end."""
        self._backend.send_end()
        with suppress(BackendLostError):
            await self._backend.request_cancel()
            while True:
                await self._backend.next()

    async def cancel(self) -> None:
        """Cancel the backend's statement."""
        await self._backend.request_cancel()

    async def schema_changed(self) -> None:
        """Nothing to do: the database holds no lake table."""

    def catalog_lost(self) -> None:
        """Nothing to do: the backend's own connection reports it."""

    async def _ask(self) -> None:
        while (frame := await self._client.frame()).type != frontend.Terminate.type:
            self.is_idle = False
            self._backend.send(await self._allowed(frame))
            await self._backend.drain()

    async def _answer(self) -> None:
        while True:
            item = await self._backend.next()
            if isinstance(item, Frame) and item.type == ReadyForQuery.type:
                self.is_idle = True
            elif isinstance(item, Frame) and item.type == ErrorResponse.type and _CONTEXT in item.data:
                item = self._without_context(item)
            self._client.relay(item.data if isinstance(item, Frame) else item)
            if not self._backend.has_more:
                await self._client.drain()

    async def _allowed(self, frame: Frame) -> bytes:
        """The message, or what has the backend refuse it."""
        if frame.type not in (frontend.Query.type, frontend.Parse.type):
            return frame.data
        begin = HEADER_BYTES
        if frame.type == frontend.Parse.type:
            begin = frame.data.find(b"\0", begin) + 1
        error = await aside(self._refused, frame.data[begin:], is_large=frame.is_large)
        if error is None:
            return frame.data
        self._refusals.add(error.message)
        rest = frame.data[frame.data.index(b"\0", begin) :]
        body = frame.data[HEADER_BYTES:begin] + _raising(error).encode() + rest
        return frame.data[:1] + (4 + len(body)).to_bytes(4) + body

    def _without_context(self, frame: Frame) -> Frame:
        """What was refused here was no statement of the client's in PL/pgSQL."""
        error = ErrorResponse.decode(frame.body, strict=False)
        if dict(error.fields).get("M") not in self._refusals:
            return frame
        fields = tuple(field for field in error.fields if field[0] not in "WFLR")
        return Frame(frame.type, ErrorResponse(fields).encode())

    def _refused(self, body: bytes) -> SluiceError | None:
        """What the first string says, of any encoding in which ASCII is ASCII."""
        return refused(body.partition(b"\0")[0].decode("latin-1"), self._lake, _NAMED)


def _raising(error: SluiceError) -> str:
    """A statement that raises the error. Its text has no `$`."""
    hint = f", HINT = $text${error.fields['H']}$text$" if "H" in error.fields else ""
    return (
        f"DO $body$BEGIN RAISE EXCEPTION USING ERRCODE = '{error.sqlstate}',"
        f" MESSAGE = $text${error.message}$text${hint}; END$body$"
    )
