r"""Escapes taken out of a block of bytes: COPY text's `\t`, `\101`, `\x41` …, and csv's quotes.

The result is the block with bytes changed and bytes left out; places in the old one are translated to the new one.
Source: `CopyReadAttributesText` in copyfromparse.c.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gateway.values.cells import Bytes, Integers, Mask

_NAMED: Final[Bytes] = np.arange(256, dtype=np.uint8)
for _letter, _byte in zip(b"bfnrtv", b"\b\f\n\r\t\v", strict=True):
    _NAMED[_letter] = _byte
_OCTAL: Final[Mask] = np.zeros(256, np.bool_)
_OCTAL[list(b"01234567")] = True
_HEXADECIMAL: Final[Mask] = np.zeros(256, np.bool_)
_HEXADECIMAL[list(b"0123456789abcdefABCDEF")] = True
_DIGIT: Final[Bytes] = np.zeros(256, np.uint8)
for _character in b"0123456789abcdefABCDEF":
    _DIGIT[_character] = int(chr(_character), 16)


class Shortened:
    """A block without the bytes at `removed` (ascending)."""

    def __init__(self, block: Bytes, removed: Integers) -> None:
        self._removed: Final = removed
        if len(removed):
            kept = np.ones(len(block), np.bool_)
            kept[removed] = False
            block = block[kept]
        self.block: Final[Bytes] = block

    def fields(self, begins: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """Where the fields of consecutive lines are in the new block. Every removed byte must be of some field."""
        if not len(self._removed) or not len(begins):
            return begins, ends
        before = int(np.searchsorted(self._removed, begins[0]))
        inside = self._removed[before : int(np.searchsorted(self._removed, ends[-1]))]
        lost = np.bincount(np.searchsorted(ends, inside, side="right"), minlength=len(ends))
        until = before + np.cumsum(lost)
        return begins - (until - lost), ends - until


def without_quotes(block: Bytes, special: Integers, content: Integers) -> Shortened:
    """csv: the quotes and escapes that are not content are left out."""
    kept = np.zeros(len(special), np.bool_)
    kept[np.searchsorted(special, content)] = True
    return Shortened(block, special[~kept])


def without_escapes(block: Bytes, escapes: Integers) -> Shortened:
    """text: each backslash in `escapes`, with what belongs to it, is replaced by the byte that it stands for."""
    size = len(block)
    padded = np.concatenate((block, np.zeros(4, np.uint8)))
    # A backslash that is the very last byte stands for nothing.
    last = escapes[escapes + 1 >= size]
    escapes = escapes[escapes + 1 < size]
    first, second, third = (padded[escapes + distance] for distance in (1, 2, 3))
    value = _NAMED[first]
    length = np.ones(len(escapes), np.int64)
    # One to three octal digits.
    octal = _OCTAL[first]
    octal_2 = octal & _OCTAL[second]
    octal_3 = octal_2 & _OCTAL[third]
    number = _DIGIT[first].astype(np.int64)
    number = np.where(octal_2, number * 8 + _DIGIT[second], number)
    number = np.where(octal_3, number * 8 + _DIGIT[third], number)
    value = np.where(octal, number & 0xFF, value)
    length += octal_2.astype(np.int64) + octal_3
    # x and one or two hexadecimal digits; without any, an x.
    hexadecimal = (first == ord("x")) & _HEXADECIMAL[second]
    hexadecimal_2 = hexadecimal & _HEXADECIMAL[third]
    number = _DIGIT[second].astype(np.int64)
    number = np.where(hexadecimal_2, number * 16 + _DIGIT[third], number)
    value = np.where(hexadecimal, number, value)
    length += hexadecimal.astype(np.int64) + hexadecimal_2
    changed = block.copy()
    changed[escapes] = value.astype(np.uint8)
    gone = [escapes[length >= distance] + distance for distance in (1, 2, 3)]
    return Shortened(changed, np.sort(np.concatenate((*gone, last))))
