"""Fingerprints: numbers for the keys of large files, kept in memory to find rows with given keys without reading again.

A data file never changes and its name is never given to another, so kept fingerprints stay true. Different keys may
have one number: the caller compares the rows found. The least recently used are evicted. Blocking, and safe in threads:
of threads that want the keys of one file at the same time, one reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from threading import Condition
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cachetools import LRUCache, cached

_KEPT_BYTES_MAX: Final = 256 * 2**20
_ROW_BYTES: Final = 12
# More wanted keys than these are looked for in the file itself.
WANTED_MAX: Final = 100_000
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
# So many bytes of keys are processed at a time: each takes three numbers meanwhile.
_PIECE_BYTES: Final = 4 * 2**20


class Fingerprints(NamedTuple):
    """The numbers of a file's keys, ascending, and the positions of the rows that have them."""

    numbers: npt.NDArray[np.uint64]
    positions: npt.NDArray[np.uint32]

    def places(self, wanted: pa.Array) -> npt.NDArray[np.int64]:
        """Return positions, ascending, that include all rows with one of these keys, none of which is NULL."""
        numbers = fingerprints(wanted)
        first = np.searchsorted(self.numbers, numbers, "left")
        counts = np.searchsorted(self.numbers, numbers, "right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.unique(self.positions[np.repeat(first, counts) + within]).astype(np.int64)


def can_be_kept(row_count: int) -> bool:
    """Whether the keys of so many rows, of one file or of several, are few enough."""
    return row_count * _ROW_BYTES <= _KEPT_BYTES_MAX


@cached(
    LRUCache(_KEPT_BYTES_MAX, getsizeof=lambda kept: kept.numbers.nbytes + kept.positions.nbytes),
    key=lambda identity, _: identity,
    condition=Condition(),
)
def fingerprints_of_file(
    identity: Hashable,  # noqa: ARG001  by which it is found again
    read: Callable[[], Iterable[tuple[npt.NDArray[np.int64], pa.Array]]],
) -> Fingerprints:
    """Return the fingerprints of the keys that `read` gives, with their rows' positions; NULL is no key.

    `identity` names the file and the columns or expressions of the keys.
    """
    numbers, positions = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    for places, keys in read():
        numbers.append(fingerprints(keys.drop_null()))
        positions.append(places[keys.is_valid().to_numpy(zero_copy_only=False)].astype(np.uint32))
    all_numbers, all_positions = np.concatenate(numbers), np.concatenate(positions)
    order = np.argsort(all_numbers)
    return Fingerprints(all_numbers[order], all_positions[order])


def fingerprints(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a number for each of these binary values, none of which is NULL: a polynomial of its bytes, modulo
    2**64."""
    _, offsets_buffer, data = keys.buffers()
    if not len(keys):
        return np.empty(0, np.uint64)
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    ends = np.searchsorted(offsets, np.arange(offsets[0] + _PIECE_BYTES, offsets[-1], _PIECE_BYTES))
    bounds = np.unique([0, *ends, len(keys)])
    return np.concatenate([_polynomials(content, offsets[first : last + 1]) for first, last in pairwise(bounds)])


def _polynomials(content: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    lengths = np.diff(offsets)
    starts = offsets[:-1] - offsets[0]
    places = np.arange(offsets[-1] - offsets[0]) - np.repeat(starts, lengths)
    powers = np.cumprod(np.full(max(int(lengths.max()), 1), _BASE))
    digits = content[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(digits * powers[places])])
    found: npt.NDArray[np.uint64] = sums[starts + lengths] - sums[starts]
    return found
