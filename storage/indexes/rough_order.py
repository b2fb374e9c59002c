"""A rough order of texts, by their first eight bytes: texts that are sorted after that are near each other in memory.

To sort a million texts where they are takes Arrow a third longer than this and sorting them afterwards.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WIDTH: Final = 8
# Behind all texts, whose first byte is never 255.
_OF_NULL: Final = np.uint64(2**64 - 1)


def rough_order(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return the places of texts in the order of their first bytes, NULLs last; equal ones stay in their order."""
    offsets, content = _offsets(texts), texts.buffers()[2]
    end = int(offsets[-1])
    held = np.zeros(end + _WIDTH, np.uint8)
    if content is not None:
        held[:end] = np.frombuffer(content, np.uint8, end)
    starts, lengths = offsets[:-1], np.diff(offsets)
    # Every place of the content as a number of eight bytes, the first one the highest.
    numbers: npt.NDArray[Any] = np.ndarray((end + 1,), ">u8", held, strides=(1,))
    first = numbers[starts].astype(np.uint64)
    short = np.flatnonzero(lengths < _WIDTH)
    # Twice, since no number is shifted by all of its bits at once.
    half = ((_WIDTH - lengths[short]) * 4).astype(np.uint64)
    first[short] = ((first[short] >> half >> half) << half) << half
    if texts.null_count:
        first[texts.is_null().to_numpy(zero_copy_only=False)] = _OF_NULL
    return np.argsort(first, kind="stable")


def _offsets(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    buffer = texts.buffers()[1]
    return np.frombuffer(buffer, np.int32, texts.offset + len(texts) + 1)[texts.offset :]
