"""Bytes replaced by longer ones: COPY's backslashes, doubled quotes, hexadecimal.

One kernel: a table from byte to replacement. It costs nothing where no byte needs replacing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.values.cells import Bytes, Integers, Mask, cells, data_of, offsets_of, payload_of


class ByteTable:
    """What each byte is written as; bytes that are not in `replacements` stand for themselves."""

    def __init__(self, replacements: Mapping[int, bytes]) -> None:
        width = max(map(len, replacements.values()), default=1)
        self.replaced: Final[Mask] = np.zeros(256, np.bool_)
        self._lengths: Final = np.ones(256, np.int64)
        self._bytes: Final[Bytes] = np.zeros((256, width), np.uint8)
        self._bytes[:, 0] = np.arange(256)
        for byte, text in replacements.items():
            self.replaced[byte] = True
            self._lengths[byte] = len(text)
            self._bytes[byte, : len(text)] = np.frombuffer(text, np.uint8)

    def apply(self, array: pa.BinaryArray) -> pa.BinaryArray:
        """The cells with their bytes replaced."""
        payload = payload_of(array)
        hits = np.flatnonzero(self.replaced[payload])
        if not len(hits):
            return array
        offsets = offsets_of(array).astype(np.int64)
        offsets -= offsets[0]
        if len(hits) * 8 < len(payload):
            return self._sparse(payload, offsets, hits)
        lengths = self._lengths[payload]
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        column = np.arange(self._bytes.shape[1])
        return cells(ends[offsets], self._bytes[payload][column < lengths[:, None]])

    def _sparse(self, payload: Bytes, offsets: npt.NDArray[np.int64], hits: npt.NDArray[np.int64]) -> pa.BinaryArray:
        """Copy everything, shifted by what was inserted so far; then write the replacements over it."""
        grown = self._lengths[payload[hits]] - 1
        shift = np.concatenate((np.zeros(1, np.int64), np.cumsum(grown)))
        runs = np.diff(np.concatenate((np.zeros(1, np.int64), hits + 1, [len(payload)])))
        out = np.empty(len(payload) + int(shift[-1]), np.uint8)
        out[np.arange(len(payload)) + np.repeat(shift, runs)] = payload
        begin = hits + shift[:-1]
        for place in range(self._bytes.shape[1]):
            longer = grown >= place
            out[begin[longer] + place] = self._bytes[payload[hits[longer]], place]
        return cells(offsets + shift[np.searchsorted(hits, offsets)], out)


def contains(array: pa.BinaryArray, table: npt.NDArray[np.bool_]) -> Mask | None:
    """Which cells hold a byte that `table` marks; None where none does."""
    payload = payload_of(array)
    hits = table[payload]
    if not hits.any():
        return None
    counted: Integers = np.concatenate((np.zeros(1, np.int64), np.cumsum(hits)))
    offsets = offsets_of(array).astype(np.int64) - int(offsets_of(array)[0])
    found: Mask = counted[offsets[1:]] > counted[offsets[:-1]]
    return found


_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_BYTEA_ESCAPES: Final = ByteTable(
    {
        **{byte: b"\\%03o" % byte for byte in range(256) if not 0x20 <= byte <= 0x7E},
        ord("\\"): b"\\\\",
    }
)


def hexadecimal(array: pa.BinaryArray) -> pa.BinaryArray:
    r"""bytea as `bytea_output` hex writes it, without the leading \x."""
    offsets = offsets_of(array).astype(np.int64)
    data = _HEX[data_of(array)[offsets[0] : offsets[-1]]]
    return cells((offsets - offsets[0]) * 2, data.view(np.uint8))


def bytea_escaped(array: pa.BinaryArray) -> pa.BinaryArray:
    """Bytea as `bytea_output` escape writes it."""
    return _BYTEA_ESCAPES.apply(array)
