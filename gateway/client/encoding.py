"""Converts texts between the client's encoding and UTF-8.

All texts inside of the gateway are in UTF-8. PostgreSQL converts them, on a connection of the gateway: this works in
any state of the session's backend, and gives PostgreSQL's errors. Many values are sent as one text with line feeds
between them; in no encoding is that byte part of another character.
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
from gateway.wire.messages.frontend import Bind
from gateway.wire.messages.layout import Message
from gateway.wire.messages.texts import texts_of, with_texts

if TYPE_CHECKING:
    from catalog.postgres.pool import Pool

UTF8: Final = "UTF8"
# Encodings for which PostgreSQL converts nothing in a UTF-8 database. UNICODE is its old name of UTF8.
UNCHANGED: Final = (UTF8, "UNICODE", "SQL_ASCII")
_BETWEEN: Final = b"\n"
_BYTE: Final = re.compile("0x([0-9a-f]{2})")
_PART_BYTES: Final = 1 << 26
# A Bind of so many bytes may have thousands of values.
_VALUES_BYTES: Final = 1 << 16

# By the type's send function: binary forms that are a text, perhaps after a number, and forms that contain values of
# other types.
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
    """The client's encoding, by PostgreSQL's name."""
    return parameters.get("client_encoding", UTF8)


def converts(parameters: Mapping[str, str]) -> bool:
    """Whether the client's texts are converted."""
    return client_encoding(parameters) not in UNCHANGED


async def read(kind: type[_M], frame: Frame, *, strict: bool = True) -> _M:
    """Decode a message from its frame; off the event loop if it is large, or may have many values."""
    is_large = frame.is_large or (kind is Bind and len(frame.data) > _VALUES_BYTES)
    return await aside(lambda data: kind.decode(data, strict=strict, start=HEADER_BYTES), frame.data, is_large=is_large)


class NoEquivalentError(Exception):
    """That many of the values could be converted; `error` is PostgreSQL's error for the next one."""

    def __init__(self, converted: pa.BinaryArray, error: SluiceError) -> None:
        super().__init__(error.message)
        self.converted = converted
        self.error = error


class ClientEncoding:
    """The encoding of one session; `parameters` are the backend's, which tell the present encoding."""

    def __init__(self, pool: Pool, parameters: Mapping[str, str]) -> None:
        self._pool = pool
        self._parameters = parameters
        self._has_texts: dict[int, bool | None] = {}

    @property
    def name(self) -> str:
        """The client's encoding, by PostgreSQL's name."""
        return client_encoding(self._parameters)

    @property
    def converts(self) -> bool:
        """Whether the client's texts are converted."""
        return converts(self._parameters)

    async def read(self, kind: type[_M], frame: Frame) -> _M:
        """Decode a message in the client's encoding. Raises 22021 and 22P05 for invalid texts."""
        message = await read(kind, frame, strict=not self.converts)
        if not self.converts:
            return message
        texts = await aside(texts_of, message, is_large=frame.is_large)
        if all(map(bytes.isascii, texts)):
            return message
        converted = await self.from_client(texts)
        return await aside(lambda before: with_texts(before, converted), message, is_large=frame.is_large)

    async def encoded(self, message: Message, *, is_large: bool = False) -> bytes:
        """A message in the client's encoding."""
        if self.converts:
            texts = await aside(texts_of, message, is_large=is_large)
            if not all(map(bytes.isascii, texts)):
                converted = await self.to_client(texts)
                message = await aside(lambda before: with_texts(before, converted), message, is_large=is_large)
        return await aside(type(message).encode, message, is_large=is_large)

    async def from_client(self, texts: Sequence[bytes]) -> list[bytes]:
        """Convert texts of the client to UTF-8."""
        return await self._texts(texts, self.name, UTF8)

    async def to_client(self, texts: Sequence[bytes]) -> list[bytes]:
        """Convert texts in UTF-8 to the client's encoding."""
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
        """Convert one text. The first error counts: PostgreSQL's function looks for invalid bytes before it
        converts.
        """
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
                place = text.find(invalid, place + 1)  # the byte was part of another character
            raise

    async def has_texts(self, type_oid: int) -> bool | None:
        """Whether the type's binary form is one text; None if it may contain texts."""
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
        """Convert a column of UTF-8 texts to the client's encoding; bytes under nulls count as empty."""
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
        """Convert the values before the first that has no equivalent."""
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
        """Convert all values, or raise an error."""
        count = len(values)
        given = _with_ends(values)
        before = np.flatnonzero(given == _BETWEEN[0])
        ends = np.searchsorted(before, np.cumsum(lengths_of(values).astype(np.int64) + 1) - 1)
        # Without the last line feed: PostgreSQL must see where a single incomplete text ends.
        made = await convert(self._pool, given[:-1].tobytes(), UTF8, self.name)
        octets = np.frombuffer(made + _BETWEEN, np.uint8)
        places = np.flatnonzero(octets == _BETWEEN[0])[ends]
        bounds = np.empty(2 * count + 1, np.int64)
        bounds[0] = 0
        bounds[1::2], bounds[2::2] = places, places + 1
        return take(cells(bounds, octets), np.arange(0, 2 * count, 2))


def _with_ends(values: pa.BinaryArray) -> np.ndarray:
    """The bytes of all values, each followed by a line feed."""
    lengths = lengths_of(values).astype(np.int64)
    whole = np.full(int(lengths.sum()) + len(values), _BETWEEN[0], np.uint8)
    is_own = np.ones(len(whole), np.bool_)
    is_own[np.cumsum(lengths + 1) - 1] = False
    whole[is_own] = payload_of(values)
    return whole


def _parts(values: pa.BinaryArray) -> list[pa.BinaryArray]:
    """Parts of bounded size, with at least one value each."""
    offsets = offsets_of(values).astype(np.int64)
    parts, start = [], 0
    while start < len(values):
        limit = min(offsets[start] + _PART_BYTES, BYTES_MAX)
        end = max(start + 1, int(np.searchsorted(offsets, limit, side="right")) - 1)
        parts.append(values.slice(start, end - start))
        start = end
    return parts
