"""Collects the rows that a part of a statement returns, in place of its client, for other parts to read.

The part returns rows in binary form, which are tuples of COPY's binary format.
"""

from __future__ import annotations

from typing import Final

from gateway.backend.copies import copy_data
from gateway.client.connection import Client, StandIn
from gateway.client.response_encoding import Copies
from gateway.wire.messages.backend import DataRow, FieldDescription, NoticeResponse
from gateway.wire.messages.layout import Message

_HEAD_BYTES: Final = 5
_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER: Final = b"\xff\xff"


class Returned(StandIn):
    """Takes the place of a client for rows; notices are passed on to the client."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._data = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self._data += data

    def describe(self, columns: tuple[FieldDescription, ...] | None, *, copies: Copies = Copies.AS_THEY_ARE) -> None:
        """The columns are not the client's."""

    def send(self, *messages: Message) -> None:
        for message in messages:
            if isinstance(message, NoticeResponse):
                self._client.send(message)

    async def drain(self) -> None:
        await self._client.drain()

    def copy_messages(self) -> bytes:
        """The rows as CopyData messages of a COPY in binary. Notices among them are passed on."""
        view, rows, place = memoryview(bytes(self._data)), [_COPY_HEADER], 0
        while place < len(view):
            end = place + 1 + int.from_bytes(view[place + 1 : place + _HEAD_BYTES])
            if view[place] == DataRow.type:
                rows.append(bytes(view[place + _HEAD_BYTES : end]))
            elif view[place] == NoticeResponse.type:
                self._client.write(view[place:end])
            place = end
        whole = b"".join((*rows, _COPY_TRAILER))
        return copy_data(whole)
