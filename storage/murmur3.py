"""The 32-bit hash of MurmurHash3 (x86, seed 0) of many values at once, which DuckLake's `bucket` takes.

Pure. Source: A. Appleby, MurmurHash3; Apache Iceberg specification, "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_FIRST: Final = np.uint32(0xCC9E2D51)
_SECOND: Final = np.uint32(0x1B873593)
_ADDED: Final = np.uint32(0xE6546B64)
_BLOCK: Final = 4
# Values are hashed in groups of about one length, whose bytes together are at most so many.
_GROUP_BYTES: Final = 16 * 2**20

_Words = npt.NDArray[np.uint32]


def hashes_of_integers(values: npt.NDArray[np.int64]) -> _Words:
    """Return the hash of each integer, as eight bytes, the lowest first."""
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    state = np.zeros(len(words), np.uint32)
    for place in range(2):
        state = _mixed(state, words[:, place])
    return _finished(state, np.full(len(words), 8, np.uint32))


def hashes_of_bytes(values: Sequence[bytes]) -> _Words:
    """Return the hash of each value. Memory is bounded by 16 MB or the longest value, beside the values."""
    found = np.empty(len(values), np.uint32)
    lengths = np.array([len(value) for value in values], np.int64)
    order = np.argsort(lengths, kind="stable")
    sizes = np.frexp(lengths[order] // _BLOCK)[1]  # the number of bits of the number of blocks
    for alike in np.split(order, np.flatnonzero(np.diff(sizes)) + 1):
        if len(alike):
            rows = max(1, _GROUP_BYTES // (int(lengths[alike[-1]]) + _BLOCK))
            for first in range(0, len(alike), rows):
                group = alike[first : first + rows]
                found[group] = _hashes([values[place] for place in group], lengths[group])
    return found


def _hashes(values: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> _Words:
    """Return the hashes of values in the order of their lengths, block by block over all of them."""
    width = (int(lengths[-1]) // _BLOCK + 1) * _BLOCK
    words = np.frombuffer(b"".join(value.ljust(width, b"\0") for value in values), "<u4").reshape(len(values), -1)
    state = np.zeros(len(values), np.uint32)
    blocks = lengths // _BLOCK
    for place in range(words.shape[1]):
        whole = np.searchsorted(blocks, place, side="right")  # from here on, values have this block
        state[whole:] = _mixed(state[whole:], words[whole:, place])
    rest = lengths % _BLOCK != 0
    tail = words[np.arange(len(values)), blocks]  # zeros stand behind the last bytes
    state[rest] ^= _scrambled(tail[rest])
    return _finished(state, lengths.astype(np.uint32))


def _scrambled(words: _Words) -> _Words:
    words = words * _FIRST
    return _rotated(words, 15) * _SECOND


def _mixed(state: _Words, words: _Words) -> _Words:
    return _rotated(state ^ _scrambled(words), 13) * np.uint32(5) + _ADDED


def _rotated(words: _Words, bits: int) -> _Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(state: _Words, lengths: _Words) -> _Words:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))
