"""A client of a database that is not the lake: `postgres` and `template1` of the embedded catalog.

Tools go there to ask what databases there are, to make one or to drop it. It is PostgreSQL's own session, under the
client's own role, and what it says goes as it is; there is nothing of the lake, and clients may make nothing that
lasts. In place of what would make another database, or drop the lake's, the backend is given something that fails.
"""

from __future__ import annotations

import asyncio
from typing import Final

from catalog.background import end
from catalog.errors import SluiceError
from gateway.backend.connection import Backend
from gateway.client.connection import Client
from gateway.wire.framing import HEADER_BYTES, Frame
from gateway.wire.messages import frontend
from gateway.wire.messages.backend import ReadyForQuery
from planner.syntax.databases import refused

OTHER_DATABASES: Final = frozenset({"postgres", "template1"})
_BEGINNING_BYTES: Final = 1 << 16
_NAMED: Final = OTHER_DATABASES | {"template0"}


class OtherDatabaseSession:
    """Passes messages on, in both directions, until one side goes."""

    def __init__(self, client: Client, backend: Backend, lake: str) -> None:
        self._client = client
        self._backend = backend
        self._lake = lake
        self.is_idle = True

    async def run(self) -> None:
        """Serve until the client goes. Raises BackendLostError when the catalog does."""
        asking, answering = asyncio.create_task(self._ask()), asyncio.create_task(self._answer())
        try:
            done, _ = await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(asking)
            await end(answering)

    async def cancel(self) -> None:
        """Stop what the backend does."""
        await self._backend.request_cancel()

    async def schema_changed(self) -> None:
        """Nothing here is of the lake."""

    def catalog_lost(self) -> None:
        """The backend's own connection tells."""

    async def _ask(self) -> None:
        while (frame := await self._client.frame()).type != frontend.Terminate.type:
            self.is_idle = False
            self._backend.send(self._allowed(frame))
            await self._backend.drain()

    async def _answer(self) -> None:
        while True:
            item = await self._backend.next()
            if isinstance(item, Frame) and item.type == ReadyForQuery.type:
                self.is_idle = True
            self._client.relay(item.data if isinstance(item, Frame) else item)
            if not self._backend.has_more:
                await self._client.drain()

    def _allowed(self, frame: Frame) -> bytes:
        """The message, or what has the backend refuse it."""
        if frame.type == frontend.Query.type:
            error = refused(_text(_beginning(frame)), self._lake, _NAMED)
            return frame.data if error is None else frontend.Query(_raising(error)).encode()
        if frame.type == frontend.Parse.type:
            name, _, rest = _beginning(frame).partition(b"\0")
            error = refused(_text(rest), self._lake, _NAMED)
            return frame.data if error is None else frontend.Parse(name.decode("latin-1"), _raising(error)).encode()
        return frame.data


def _beginning(frame: Frame) -> bytes:
    """So much of a message's body as tells what the statement is. What comes behind a longer comment, PostgreSQL judges
    by the client's rights."""
    return bytes(memoryview(frame.data)[HEADER_BYTES : HEADER_BYTES + _BEGINNING_BYTES])


def _text(body: bytes) -> str:
    """The first string, of any encoding in which ASCII is ASCII."""
    return body.partition(b"\0")[0].decode("latin-1")


def _raising(error: SluiceError) -> str:
    """A statement that fails so. What it says has no `$`."""
    hint = f", HINT = $text${error.fields['H']}$text$" if "H" in error.fields else ""
    return (
        f"DO $body$BEGIN RAISE EXCEPTION USING ERRCODE = '{error.sqlstate}',"
        f" MESSAGE = $text${error.message}$text${hint}; END$body$"
    )
