"""Buffers of answers to a client, kept until no error can follow, or returned in portions."""

from __future__ import annotations

from typing import Final

from gateway.client.connection import Client, StandIn
from gateway.session.response_spool import ResponseSpool
from gateway.wire.framing import Frame, RelayScanner
from gateway.wire.messages.backend import CommandComplete, NoticeResponse, PortalSuspended
from gateway.wire.messages.layout import Message

_KEPT_AT_ONCE_BYTES: Final = 1 << 20


class HeldAnswers(StandIn):
    """Takes the place of a client and keeps its answers; notices go to the client at once. `release` sends the rest;
    `close` drops it.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._scanner = RelayScanner()
        self._waiting = bytearray()
        self._kept = ResponseSpool()
        self._end: CommandComplete | None = None

    def write(self, data: bytes | memoryview) -> None:
        for item in self._scanner.feed(bytes(data)):
            if not isinstance(item, Frame):
                self._waiting += item
            elif item.type == NoticeResponse.type:
                self._client.write(item.data)
            else:
                self._waiting += item.data

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, CommandComplete):
                self._end = message
            else:
                self.write(message.encode())

    async def drain(self) -> None:
        if len(self._waiting) > _KEPT_AT_ONCE_BYTES:
            await self._keep()

    async def _keep(self) -> None:
        data, self._waiting = self._waiting, bytearray()
        await self._kept.keep(memoryview(data))

    async def release(self, *, whole: bool = True) -> None:
        """Send everything, in order; without CommandComplete if not `whole`."""
        await self._keep()
        await self._kept.give(self._client)
        if whole and self._end is not None:
            self._client.send(self._end)

    async def close(self) -> None:
        self._waiting.clear()
        self._kept.close()


class HeardTag(StandIn):
    """Passes all messages to the client, and keeps the command tag."""

    tag = ""

    def write(self, data: bytes | memoryview) -> None:
        self._client.write(data)

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, CommandComplete):
                self.tag = message.tag
        self._client.send(*messages)

    async def drain(self) -> None:
        await self._client.drain()


def without_rows(tag: str) -> CommandComplete:
    """The command tag of an execution that had no rows left."""
    command, _, number = tag.rpartition(" ")
    return CommandComplete(f"{command} 0" if number.isdigit() else tag)


class HeldRows(HeldAnswers):
    """Gives rows in portions."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._given = 0

    async def give(self, limit: int) -> None:
        """Send the next rows, at most `limit` unless it is 0, and CommandComplete or PortalSuspended.

        As in PostgreSQL, only an execution with fewer rows than the limit knows that these were the last.
        """
        assert self._end is not None
        await self._keep()
        command, _, number = self._end.tag.rpartition(" ")
        if limit:
            given = await self._kept.give_rows(self._client, limit)
            self._given += given
            if given == limit:
                self._client.send(PortalSuspended())
                return
        else:
            await self._kept.give(self._client)
            given = int(number) - self._given if number.isdigit() else 0
        self._client.send(CommandComplete(f"{command} {given}") if number.isdigit() else self._end)
