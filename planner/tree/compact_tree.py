"""The text of a tree without its long constants, which are kept beside it as bytes.

PostgreSQL writes each byte as a number, so a literal of 64 megabytes takes some 256 of them. PostgreSQL's message is
read slice by slice, and never turned into one text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

_SLICE: Final = 1 << 18
# So many characters of numbers stay in the text.
_LONG: Final = 4096
# Only a datum has numbers in such brackets: within a name, blanks stand behind a backslash.
_BEGIN: Final = re.compile(rb"(?<=[0-9][ \n])\[[ \n]([-0-9 \n]{%d,})" % _LONG)
_PERHAPS: Final = re.compile(rb"-?[0-9]+[ \n]?(?:\[[ \n]?[-0-9 \n]{0,%d})?\Z" % _LONG)
_NUMBERS: Final = re.compile(rb"[-0-9 \n]*")
_BLANK, _ZERO, _MINUS = b" "[0], b"0"[0], b"-"[0]
_MARK: Final = "#"


@dataclass(frozen=True, slots=True)
class TreeText:
    """A tree's text, with marks in place of long constants.

    Marks tell constants apart by their content; `kept` are these constants, in order. It is no kind of str, because
    Python would copy the text into it, which takes long.
    """

    text: str
    kept: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """The size of the tree, constants included."""
        return len(self.text) + sum(len(constant) for constant in self.kept)


def kept_constant(content: str, kept: tuple[bytes, ...]) -> str | bytes:
    """Return the constant that a mark stands for; numbers as they are."""
    return kept[int(content[1:].split(":", maxsplit=1)[0])] if content.startswith(_MARK) else content


def compact(data: bytes | bytearray, start: int, end: int) -> TreeText:
    """Return the tree that PostgreSQL has written between these places, in UTF-8."""
    texts: list[bytes] = []
    kept: list[bytes] = []
    numbers: list[bytes] | None = None  # the constant that is being read
    for piece in _pieces(data, start, end):
        place = 0
        while True:
            if numbers is not None:
                found = _NUMBERS.match(piece, place)
                assert found is not None
                numbers.append(_bytes_of(piece[place : found.end()]))
                if found.end() == len(piece):
                    break
                place = found.end()
                _keep(texts, kept, numbers)
                numbers = None
            begin = _BEGIN.search(piece, place)
            if begin is None:
                texts.append(piece[place:])
                break
            texts.append(piece[place : begin.start(1)])
            place, numbers = begin.start(1), []
    if numbers is not None:
        _keep(texts, kept, numbers)
    return TreeText("".join(str(text, "utf-8", "surrogateescape") for text in _characters(texts)), tuple(kept))


def _keep(texts: list[bytes], kept: list[bytes], numbers: list[bytes]) -> None:
    constant = b"".join(numbers)
    texts.append(f"{_MARK}{len(kept)}:{hashlib.sha256(constant).hexdigest()} ".encode())
    kept.append(constant)


def _pieces(data: bytes | bytearray, start: int, end: int) -> Iterator[bytes]:
    """Yield slices that end at a blank and do not cut the beginning of a constant."""
    view, rest = memoryview(data), b""
    while start < end:
        after = min(start + _SLICE, end)
        piece, start = rest + view[start:after], after
        rest = b""
        if start < end:
            cut = max(piece.rfind(b" "), piece.rfind(b"\n")) + 1
            found = _PERHAPS.search(piece, max(cut - _LONG - 100, 0), cut)
            cut = found.start() if found is not None else cut
            piece, rest = piece[:cut], piece[cut:]
        if piece:
            yield piece
    if rest:
        yield rest


def _characters(texts: list[bytes]) -> Iterator[bytes]:
    """Yield the same slices, but none ends within a character of several bytes."""
    rest = b""
    for text in texts:
        whole = rest + text
        cut = max(whole.rfind(b" "), whole.rfind(b"\n")) + 1
        rest = whole[cut:]
        yield whole[:cut]
    yield rest


def _bytes_of(text: bytes) -> bytes:
    """Return numbers of three digits at most, with a sign or without, each followed by a blank, as bytes."""
    octets = np.frombuffer(b"    " + text + b" ", np.uint8)
    is_blank = octets <= _BLANK
    last = np.flatnonzero(is_blank[1:] & ~is_blank[:-1])  # the last digits
    one, two, three, four = (octets[last - back] for back in range(4))
    has_two = two >= _ZERO
    has_three = has_two & (three >= _ZERO)
    values = one - _ZERO
    values += np.where(has_two, (two - _ZERO) * np.uint8(10), np.uint8(0))
    values += np.where(has_three, (three - _ZERO) * np.uint8(100), np.uint8(0))
    sign = np.where(has_three, four, np.where(has_two, three, two))
    return np.where(sign == _MINUS, np.uint8(0) - values, values).astype(np.uint8).tobytes()
