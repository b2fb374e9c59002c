"""The encoding that a client's texts are in, and texts on their way from it and to it.

Inside the gateway all texts are in UTF-8. PostgreSQL converts, on a connection of the gateway's own: that works in
whatever state the session's backend is, with PostgreSQL's own errors. Many values are one text to it, with a line feed
between two: in no encoding is that byte a part of another character.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from catalog.postgres.encodings import convert, send_function
from gateway.client.message_thread import aside
from gateway.values.cells import BYTES_MAX, cells, lengths_of, offsets_of, payload_of, take
from gateway.wire.framing import HEADER_BYTES, Frame
from gateway.wire.messages.layout import Message
from gateway.wire.messages.texts import texts_of, with_texts

if TYPE_CHECKING:
    from catalog.postgres.pool import Pool

UTF8: Final = "UTF8"
# Those of which PostgreSQL converts nothing, where the database is in UTF-8. It keeps the old name of UTF8 as it is.
UNCHANGED: Final = (UTF8, "UNICODE", "SQL_ASCII")
_BETWEEN: Final = b"\n"
_BYTE: Final = re.compile("0x([0-9a-f]{2})")
_PART_BYTES: Final = 1 << 26

# By the function that gives it, binary forms that are a text, maybe with a number before it; and such as have values of
# other types in them.
_TEXTS: Final = frozenset({
    "textsend", "varcharsend", "bpcharsend", "namesend", "json_send", "jsonb_send", "jsonpath_send", "xml_send",
    "enum_send", "unknownsend", "cstring_send",
})  # fmt: skip
_COMPOSED: Final = frozenset({
    "array_send", "record_send", "range_send", "multirange_send", "anyarray_send", "anycompatiblearray_send",
    "anycompatiblemultirange_send", "tsvectorsend", "tsquerysend",
})  # fmt: skip

_M = TypeVar("_M", bound=Message)


def client_encoding(parameters: Mapping[str, str]) -> str:
    """By PostgreSQL's name."""
    return parameters.get("client_encoding", UTF8)


def converts(parameters: Mapping[str, str]) -> bool:
    """Whether texts are converted for the client."""
    return client_encoding(parameters) not in UNCHANGED


async def read(kind: type[_M], frame: Frame, *, strict: bool = True) -> _M:
    """A message from its frame: a large one off the event loop."""
    return await aside(
        lambda data: kind.decode(data, strict=strict, start=HEADER_BYTES), frame.data, is_large=frame.is_large
    )


class NoEquivalentError(Exception):
    """So many of the values could be converted; `error` is what PostgreSQL says of the next."""

    def __init__(self, converted: pa.BinaryArray, error: SluiceError) -> None:
        super().__init__(error.message)
        self.converted = converted
        self.error = error


class ClientEncoding:
    """One for each session; `parameters` are the backend's, which tell the encoding of the moment."""

    def __init__(self, pool: Pool, parameters: Mapping[str, str]) -> None:
        self._pool = pool
        self._parameters = parameters
        self._has_texts: dict[int, bool | None] = {}

    @property
    def name(self) -> str:
        """The client's encoding by PostgreSQL's name."""
        return client_encoding(self._parameters)

    @property
    def converts(self) -> bool:
        """Whether texts are converted for the client."""
        return converts(self._parameters)

    async def read(self, kind: type[_M], frame: Frame) -> _M:
        """A message in the client's encoding. 22021 and 22P05 for texts that are none."""
        message = await read(kind, frame, strict=not self.converts)
        if not self.converts:
            return message
        texts = await aside(texts_of, message, is_large=frame.is_large)
        if all(map(bytes.isascii, texts)):
            return message
        converted = await self.from_client(texts)
        return await aside(lambda before: with_texts(before, converted), message, is_large=frame.is_large)

    async def encoded(self, message: Message, *, is_large: bool = False) -> bytes:
        """A message as the client would say it, or be told it."""
        if self.converts:
            texts = await aside(texts_of, message, is_large=is_large)
            if not all(map(bytes.isascii, texts)):
                converted = await self.to_client(texts)
                message = await aside(lambda before: with_texts(before, converted), message, is_large=is_large)
        return await aside(type(message).encode, message, is_large=is_large)

    async def from_client(self, texts: Sequence[bytes]) -> list[bytes]:
        """Some texts of the client's in UTF-8."""
        return await self._texts(texts, self.name, UTF8)

    async def to_client(self, texts: Sequence[bytes]) -> list[bytes]:
        """Some texts in UTF-8 as the client is to see them."""
        return await self._texts(texts, UTF8, self.name)

    async def _texts(self, texts: Sequence[bytes], source: str, target: str) -> list[bytes]:
        if not texts:
            return []
        try:
            whole = await convert(self._pool, _BETWEEN.join(texts), source, target)
        except SluiceError:
            return [await self._text(text, source, target) for text in texts]
        pieces = iter(whole.split(_BETWEEN))
        return [_BETWEEN.join(next(pieces) for _ in range(text.count(_BETWEEN) + 1)) for text in texts]

    async def _text(self, text: bytes, source: str, target: str) -> bytes:
        """One text. What is wrong with it first is its error: PostgreSQL's function looks for invalid bytes before it
        converts anything."""
        try:
            return await convert(self._pool, text, source, target)
        except SluiceError as error:
            invalid = bytes(int(byte, 16) for byte in _BYTE.findall(error.message))
            place = text.find(invalid) if error.sqlstate == SqlState.CHARACTER_NOT_IN_REPERTOIRE else -1
            while place > 0:
                try:
                    await convert(self._pool, text[:place], source, target)
                except SluiceError as earlier:
                    if earlier.sqlstate != SqlState.CHARACTER_NOT_IN_REPERTOIRE:
                        raise earlier from error
                else:
                    break
                place = text.find(invalid, place + 1)  # that was in the midst of another character
            raise

    async def has_texts(self, type_oid: int) -> bool | None:
        """Whether the type's binary form is a text, as a whole; None where there may be texts in it."""
        if type_oid not in self._has_texts:
            self._has_texts[type_oid] = await self._found_texts(type_oid)
        return self._has_texts[type_oid]

    async def _found_texts(self, type_oid: int) -> bool | None:
        found = await send_function(self._pool, type_oid)
        if found is None or found[0] in _COMPOSED:
            return None
        function, several = found
        is_text = function in _TEXTS
        return None if is_text and several else is_text

    async def cells_to_client(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """A column of texts in UTF-8 as the client is to see them; what is under nulls counts as empty."""
        if values.null_count:
            values = values.fill_null(b"")
        if not (payload_of(values) & 0x80).any():
            return values
        found: list[pa.BinaryArray] = []
        for part in _parts(values):
            try:
                found.append(await self._cells(part))
            except SluiceError:
                good, error = await self._up_to_error(part)
                raise NoEquivalentError(pa.concat_arrays([values[:0], *found, *good]), error) from error
        return pa.concat_arrays(found)

    async def _up_to_error(self, values: pa.BinaryArray) -> tuple[list[pa.BinaryArray], SluiceError]:
        """What can be converted of values of which not all can."""
        found: list[pa.BinaryArray] = []
        while True:
            half = len(values) // 2
            try:
                found.append(await self._cells(values if not half else values.slice(0, half)))
                values = values.slice(max(half, 1))
            except SluiceError as error:
                if not half:
                    return found, error
                values = values.slice(0, half)

    async def _cells(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """All of them, or an error."""
        count = len(values)
        given = _with_ends(values)
        before = np.flatnonzero(given == _BETWEEN[0])
        ends = np.searchsorted(before, np.cumsum(lengths_of(values).astype(np.int64) + 1) - 1)
        # Without the last line feed: where a single text ends early, PostgreSQL is to see that it does.
        made = await convert(self._pool, given[:-1].tobytes(), UTF8, self.name)
        octets = np.frombuffer(made + _BETWEEN, np.uint8)
        places = np.flatnonzero(octets == _BETWEEN[0])[ends]
        bounds = np.empty(2 * count + 1, np.int64)
        bounds[0] = 0
        bounds[1::2], bounds[2::2] = places, places + 1
        return take(cells(bounds, octets), np.arange(0, 2 * count, 2))


def _with_ends(values: pa.BinaryArray) -> np.ndarray:
    """The bytes of all values, with a line feed behind each."""
    lengths = lengths_of(values).astype(np.int64)
    whole = np.full(int(lengths.sum()) + len(values), _BETWEEN[0], np.uint8)
    is_own = np.ones(len(whole), np.bool_)
    is_own[np.cumsum(lengths + 1) - 1] = False
    whole[is_own] = payload_of(values)
    return whole


def _parts(values: pa.BinaryArray) -> list[pa.BinaryArray]:
    """Parts of bounded size, but of one value at least."""
    offsets = offsets_of(values).astype(np.int64)
    parts, start = [], 0
    while start < len(values):
        limit = min(offsets[start] + _PART_BYTES, BYTES_MAX)
        end = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
        parts.append(values.slice(start, end - start))
        start = end
    return parts
