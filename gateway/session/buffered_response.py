"""Answers to a client that are held back: until it is certain that there is no error, or to be given in portions."""

from __future__ import annotations

from typing import Final

from gateway.client.connection import Client, StandIn
from gateway.session.response_spool import KeptAnswers
from gateway.wire.messages.backend import CommandComplete, NoticeResponse, PortalSuspended
from gateway.wire.messages.layout import Message

_KEPT_AT_ONCE_BYTES: Final = 1 << 20


class HeldAnswers(StandIn):
    """Stands for a client; notices go to the true one at once. `release` gives it all else; `close` gives that up."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._waiting = bytearray()
        self._kept = KeptAnswers()
        self._end: CommandComplete | None = None

    def write(self, data: bytes | memoryview) -> None:
        if data[0] == NoticeResponse.type:
            self._client.write(data)
        else:
            self._waiting += data

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, CommandComplete):
                self._end = message
            else:
                self.write(message.encode())

    def send_aside(self, notice: NoticeResponse) -> None:
        self._client.send_aside(notice)

    async def drain(self) -> None:
        if len(self._waiting) > _KEPT_AT_ONCE_BYTES:
            await self._keep()

    async def _keep(self) -> None:
        data, self._waiting = self._waiting, bytearray()
        await self._kept.keep(memoryview(data))

    async def release(self) -> None:
        """Everything, in order."""
        await self._keep()
        await self._kept.give(self._client)
        if self._end is not None:
            self._client.send(self._end)

    async def close(self) -> None:
        self._waiting.clear()
        self._kept.close()


class HeardTag(StandIn):
    """Passes all on to the true client, and keeps the tag."""

    tag = ""

    def write(self, data: bytes | memoryview) -> None:
        self._client.write(data)

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, CommandComplete):
                self.tag = message.tag
        self._client.send(*messages)

    def send_aside(self, notice: NoticeResponse) -> None:
        self._client.send_aside(notice)

    async def drain(self) -> None:
        await self._client.drain()


def without_rows(tag: str) -> CommandComplete:
    """What ends an execution that had no rows left to give."""
    command, _, number = tag.rpartition(" ")
    return CommandComplete(f"{command} 0" if number.isdigit() else tag)


class HeldRows(HeldAnswers):
    """Gives rows in portions."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._given = 0

    async def give(self, limit: int) -> None:
        """The next rows, at most `limit` where that is not 0, and CommandComplete or PortalSuspended.

        As in PostgreSQL, whether these were the last is known only where there were fewer.
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
