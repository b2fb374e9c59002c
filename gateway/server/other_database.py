"""Serves clients of the databases `postgres` and `template1` of the embedded catalog, which hold no lake.

Tools use these to list, make or drop databases. The session is PostgreSQL's own, under the client's role, and its
answers pass unchanged. Clients can make nothing permanent there. A statement that would make another database, or drop
the lake's, is replaced by one that fails.
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
    """Passes messages on in both directions, until one side ends."""

    def __init__(self, client: Client, backend: Backend, lake: str) -> None:
        self._client = client
        self._backend = backend
        self._lake = lake
        self.is_idle = True

    async def run(self) -> None:
        """Serve until the client disconnects. Raises BackendLostError when the catalog is lost."""
        asking, answering = asyncio.create_task(self._ask()), asyncio.create_task(self._answer())
        try:
            done, _ = await asyncio.wait((asking, answering), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(asking)
            await end(answering)

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
        """The message, or one that the backend refuses."""
        if frame.type == frontend.Query.type:
            error = refused(_text(_beginning(frame)), self._lake, _NAMED)
            return frame.data if error is None else frontend.Query(_raising(error)).encode()
        if frame.type == frontend.Parse.type:
            name, _, rest = _beginning(frame).partition(b"\0")
            error = refused(_text(rest), self._lake, _NAMED)
            return frame.data if error is None else frontend.Parse(name.decode("latin-1"), _raising(error)).encode()
        return frame.data


def _beginning(frame: Frame) -> bytes:
    """The beginning of a message's body, enough to classify the statement. Behind a longer comment, PostgreSQL decides
    by the client's rights.
    """
    return bytes(memoryview(frame.data)[HEADER_BYTES : HEADER_BYTES + _BEGINNING_BYTES])


def _text(body: bytes) -> str:
    """The first string, in any encoding that contains ASCII."""
    return body.partition(b"\0")[0].decode("latin-1")


def _raising(error: SluiceError) -> str:
    """A statement that raises the error. Its text has no `$`."""
    hint = f", HINT = $text${error.fields['H']}$text$" if "H" in error.fields else ""
    return (
        f"DO $body$BEGIN RAISE EXCEPTION USING ERRCODE = '{error.sqlstate}',"
        f" MESSAGE = $text${error.message}$text${hint}; END$body$"
    )
