"""From a stream of bytes to frames, without I/O: fed in pieces cut anywhere, bounded in what they hold.

`FrameReader` splits everything, for what a client sends. `RelayScanner` is for what a PostgreSQL sends on its way to
a client: runs of rows pass as they lie in the received bytes, one slice for as many whole or partial frames as there
are, and only the other frames come out one by one. A frame is a type byte, a length that counts itself, and a body.

The scanner still reads one header per row, for the place of each depends on the one before; measured, that is
7 million frames a second on one core, more than PostgreSQL sends.

Errors are 08P01 and end the connection; after one the object must not be fed again.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple, cast

from catalog.errors import SluiceError, SqlState
from gateway.wire.messages.backend import BACKEND, Authentication, DataRow
from gateway.wire.messages.copy import CopyData
from gateway.wire.messages.frontend import FRONTEND, AuthenticationData
from gateway.wire.messages.layout import LARGE_LIMIT, SASL_LIMIT, Message, violation

HEADER: Final = struct.Struct("!BI")
HEADER_BYTES: Final = HEADER.size
# What has been taken from the front of the buffer is cut off when it is this much.
_COMPACT_BYTES: Final = 1 << 16
# Bytes that take a fraction of a millisecond to copy. What is larger is not copied on the event loop.
LARGE_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 256

FRONTEND_LIMITS: Final[Mapping[int, int]] = {message.type: message.limit for message in FRONTEND.values()}
BACKEND_LIMITS: Final[Mapping[int, int]] = {
    Authentication.type: LARGE_LIMIT,
    **{message.type: message.limit for message in BACKEND.values()},
}


class UnknownTypeError(SluiceError):
    """08P01: the peer has sent a message of a type that there is none of."""

    def __init__(self, peer: str, type_byte: int) -> None:
        super().__init__(SqlState.PROTOCOL_VIOLATION, f"invalid {peer} message type {type_byte}", severity="FATAL")
        self.type = type_byte


class Frame(NamedTuple):
    """One frame as it came: its type byte, and all of its bytes, header included.

    The bytes of a large one are those that it was collected in, a bytearray, which nobody changes any more.
    """

    type: int
    data: bytes

    @property
    def body(self) -> bytes:
        return bytes(memoryview(self.data)[5:])

    @property
    def head(self) -> bytes:
        """The beginning. Of an error or a notice, its severity and its SQLSTATE are there."""
        return self.data[:_HEAD_BYTES]

    @property
    def is_large(self) -> bool:
        """Whether it takes more than a moment to copy and to read."""
        return len(self.data) >= LARGE_BYTES


class FrameReader:
    """Splits what a peer sends. Take all frames there are before feeding more: then never more is held than one frame
    (of its type's limit) and one piece."""

    def __init__(self, limits: Mapping[int, int] = FRONTEND_LIMITS, peer: str = "frontend") -> None:
        self._limits = limits
        self._peer = peer
        self._buffer = bytearray()
        self._place = 0
        self._large: bytearray | None = None  # a large frame as far as it is here, and how long it will be
        self._large_size = 0
        self._rest = 0  # bytes still to come of a CopyData whose beginning was given

    @property
    def buffered(self) -> int:
        """Bytes that were fed and not yet taken."""
        return len(self._buffer) - self._place + len(self._large or b"")

    @property
    def next_type(self) -> int | None:
        """The type byte of what comes next; None where nothing is at hand."""
        if self._large is not None:
            return self._large[0]
        if self._rest:
            return CopyData.type
        return self._buffer[self._place] if self.buffered else None

    def feed(self, data: bytes) -> None:
        if self._large is not None:
            needed = self._large_size - len(self._large)
            if len(data) <= needed:
                self._large += data
                return
            self._large += memoryview(data)[:needed]
            data = data[needed:]
        if self._place == len(self._buffer) or self._place >= _COMPACT_BYTES:
            del self._buffer[: self._place]
            self._place = 0
        self._buffer += data

    def next_sasl(self) -> bytes | None:
        """The body of the next frame, or None where more bytes are needed.

        One that is none of a SASL exchange is refused by its type, one that is too long by its header.
        """
        if self.buffered and (type_byte := self._buffer[self._place]) != AuthenticationData.type:
            raise violation(f"expected SASL response, got message type {type_byte}")
        if self.buffered >= HEADER.size:
            _, length = HEADER.unpack_from(self._buffer, self._place)
            if not 4 <= length <= SASL_LIMIT + 4:
                raise violation("invalid message length")
        frame = self.next_frame()
        return None if frame is None else frame.body

    def next_frame(self) -> Frame | None:
        """The next frame, or None where more bytes are needed. What is left of a CopyData is dropped."""
        if self._rest:
            self._take_rest()
        if self._large is not None:
            return self._take_large()
        if self.buffered < 5:
            if self.buffered and self._buffer[self._place] not in self._limits:
                raise self._unknown(self._buffer[self._place])
            return None
        type_byte, length = self._header()
        start = self._place
        end = start + length + 1
        if len(self._buffer) < end:
            if length >= LARGE_BYTES:
                self._large, self._large_size = self._buffer[start:], length + 1
                self._buffer.clear()
                self._place = 0
            return None
        self._place = end
        return Frame(type_byte, bytes(memoryview(self._buffer)[start:end]))

    def _take_large(self) -> Frame | None:
        """A large frame was collected where it is, and is given as it is."""
        large = self._large
        if large is None or len(large) < self._large_size:
            return None
        self._large = None
        return Frame(large[0], cast(bytes, large))

    def frames(self) -> Iterator[Frame]:
        """All whole frames there are."""
        while (frame := self.next_frame()) is not None:
            yield frame

    def next_copy_data(self) -> bytes:
        """The payloads of all CopyData frames at the front, as one; empty where the next frame is another, or none.

        Clients send a line per message as often as 64 KiB: a run of them costs one object. A large one comes in parts.
        """
        payloads: list[bytes | memoryview] = [self._take_rest()]
        view = memoryview(self._buffer)
        end = len(view)
        while end - self._place >= 5 and view[self._place] == CopyData.type:
            _, length = self._header()
            if self._place + length + 1 > end:
                if length < LARGE_BYTES:
                    break
                self._rest = self._place + length + 1 - end
                length = end - self._place - 1
            payloads.append(view[self._place + 5 : self._place + length + 1])
            self._place += length + 1
        return b"".join(payloads)

    def _take_rest(self) -> bytes:
        """As much as is there of a CopyData that was begun."""
        if not self._rest:
            return b""
        taken = bytes(memoryview(self._buffer)[self._place : self._place + self._rest])
        self._place += len(taken)
        self._rest -= len(taken)
        return taken

    def _header(self) -> tuple[int, int]:
        type_byte, length = HEADER.unpack_from(self._buffer, self._place)
        limit = self._limits.get(type_byte)
        if limit is None:
            raise self._unknown(type_byte)
        if not 4 <= length <= limit + 4:
            raise violation("invalid message length")
        return type_byte, length

    def _unknown(self, type_byte: int) -> SluiceError:
        return UnknownTypeError(self._peer, type_byte)


class RelayScanner:
    """Splits what a PostgreSQL sends into runs that pass (memoryviews) and frames to look at.

    `passing` are the type bytes that need no look, and may be changed between feeds. The order is kept: every byte fed
    comes out once, in a run or in a frame. Of passing frames nothing is held back but a header cut in two; so a row
    of any size streams through.
    """

    def __init__(self, passing: Collection[type[Message]] = (DataRow, CopyData)) -> None:
        self.passing = frozenset(message.type for message in passing)
        self._limits = BACKEND_LIMITS
        self._held = bytearray()  # the beginning of a frame that is not passing, or a header cut in two
        self._skip = 0  # bytes still to come of a passing frame

    def _completed(self, data: bytes) -> tuple[Frame | None, bytes]:
        """The frame whose beginning is held, once it is whole, and what is still to be split. What is held is not
        looked at, nor copied, each time that a piece of it comes."""
        held = self._held
        if len(held) < 5 or held[0] in self.passing:
            data = bytes(held) + data
            held.clear()
            return None, data
        type_byte, length = HEADER.unpack_from(held)
        needed = length + 1 - len(held)
        if len(data) < needed:
            held += data
            return None, b""
        held += memoryview(data)[:needed]
        self._held = bytearray()
        whole = cast(bytes, held) if len(held) >= LARGE_BYTES else bytes(held)
        return Frame(type_byte, whole), data[needed:]

    def feed(self, data: bytes) -> Iterator[memoryview | Frame]:
        """Must be exhausted before the next feed. The memoryviews are of `data`, or of bytes of their own."""
        if self._held:
            frame, data = self._completed(data)
            if frame is not None:
                yield frame
        view = memoryview(data)
        size = len(data)
        place = 0  # of the next header; may lie beyond the end, for a passing frame that is cut
        start = 0  # of the run
        if self._skip:
            place, self._skip = self._skip, 0
        passing, unpack, last = self.passing, HEADER.unpack_from, size - 5
        while place <= last:
            type_byte, length = unpack(data, place)
            # This line is the whole cost of a relayed row; a length that is too great is found when the row is cut.
            if type_byte in passing and length > 3:
                place += length + 1
                if place <= size or length <= LARGE_LIMIT + 4:
                    continue
            if not 4 <= length <= self._limits.get(type_byte, -1) + 4:
                raise violation(
                    "invalid message length"
                    if type_byte in self._limits
                    else f"invalid backend message type {type_byte}"
                )
            if start < place:
                yield view[start:place]
            start = place
            place += length + 1
            if place > size:
                self._held += view[start:]
                return
            yield Frame(type_byte, data[start:place])
            start = place
        if place >= size:
            self._skip = place - size
            place = size
        if start < place:
            yield view[start:place]
        self._held += view[place:]
