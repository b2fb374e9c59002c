"""The text of a tree as one line, and the bytes of its constants. Both may be hundreds of megabytes.

C code does the work, slice by slice, so that other threads get the interpreter in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from catalog.errors import SluiceError, SqlState
from planner.tree.long_text import find

# print.c, format_node_dump: a line ends at a blank, which is lost, or, if it has none, behind this byte.
_LINE_LENGTH: Final = 78
# A line that may be so long and has no blank; a character takes four bytes at most.
_UNBROKEN: Final = re.compile(rf"\n[^\n][^ \n]{{{_LINE_LENGTH // 4},}}(?=\n)")
# outfuncs.c, outToken: a backslash precedes a separator inside a token. A string of a list is quoted, so separators
# inside have none.
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_SEPARATORS: Final = (b" ", b"(", b")", b"{", b"}")
_BACKSLASHES: Final = re.compile(rb"\\+")
_FIELD: Final = re.compile(rb":(?:base\.)?[A-Za-z_]\w*(?: |(?<![^\n]{78})$)")
_BEHIND_FIELD: Final = re.compile(rb"(?<![^ (){}]):(?:base\.)?[A-Za-z_]\w*$")
_UNKNOWN_END: Final = "nobody can tell whether a word in it ends with its line"
# The longest name, and its quotes.
_NAME_LENGTH: Final = 63 + 2
_SLICE: Final = 1 << 18
# How PostgreSQL prints a byte: as a number with a sign or without, depending on the machine's characters.
_BYTES: Final = {str(number): number & 0xFF for number in range(-128, 256)}


def malformed(what: str) -> SluiceError:
    """Return the error for a tree that PostgreSQL 18 does not write."""
    return SluiceError(SqlState.INTERNAL_ERROR, f"cannot read PostgreSQL's parse tree: {what}")


def unwrapped(text: str) -> str:
    """Return the text with the blanks at which PostgreSQL has broken its lines."""
    if "\n" not in text:
        return text
    if find(text, "\\\n") >= 0:
        return _line_by_line(text.strip("\n"))
    parts: list[str] = []
    for part in _slices(text, "\n"):
        if _UNBROKEN.search(part) or (not parts and _UNBROKEN.match("\n" + part[: part.find("\n") + 1])):
            return _line_by_line(text.strip("\n"))
        parts.append(part.replace("\n", " "))
    return "".join(parts)


def _slices(text: str, separator: str) -> Iterator[str]:
    """Yield parts of the text without separators at its ends; each part but the first begins with a separator, each but
    the last is followed by one.
    """
    place, end = 0, len(text)
    while place < end and text[place] == separator:
        place += 1
    while place < end and text[end - 1] == separator:
        end -= 1
    while place < end:
        last = text.find(separator, place + _SLICE, end)
        last = end if last < 0 else last
        yield text[place:last]
        place = last


def _line_by_line(text: str) -> str:
    """Unwrap the text if a line may have ended within a token."""
    # A line may have ended within a character as well.
    lines = text.encode("utf-8", "surrogateescape").split(b"\n")
    return b"".join(_Joining(lines).parts()).decode("utf-8", "surrogateescape")


class _Joining:
    """Goes through the lines and records the kind of token in which each of them ends."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._escapes = False  # whether the line ends with a backslash that escapes what follows
        self._goes_on: list[bool] = []  # of each line: whether it may end with a line feed of the token's
        self._token = b""  # the token in which the line ends, its begin and end; empty between two tokens
        self._length = 0  # its bytes, escapes undone
        self._is_value = False  # whether the token follows a field's name

    def parts(self) -> Iterator[bytes]:
        """Yield the lines, and the separators between them."""
        within = False  # whether the last line ended behind a backslash that escapes this line's first byte
        for number, line in enumerate(self._lines[:-1]):
            if within and not line:  # the byte is a line feed, before or behind which the line was cut
                self._goes_on.append(self._may_be_cut(number - 1))
                within = False
                yield b" "
                continue
            self._read(line[within:])
            yield line
            blank = self._lost_blank(number)
            within = self._escapes and not blank
            self._goes_on.append(self._escapes and blank)
            if blank:
                yield b" "
                if not self._escapes:
                    self._is_value = _BEHIND_FIELD.search(self._token) is not None
                    self._token, self._length = b"", 0
        yield self._lines[-1]

    def _read(self, line: bytes) -> None:
        plain = _ESCAPED.sub(b"_", line)
        self._escapes = plain.endswith(b"\\")
        cut = max(map(plain.rfind, _SEPARATORS))
        if cut >= 0:
            self._is_value = _BEHIND_FIELD.search(plain, 0, cut) is not None
            self._token, self._length = plain[cut + 1 :], 0
        else:
            self._token = self._token[:2] + plain
        self._length += len(plain) - cut - 1

    def _lost_blank(self, number: int) -> bool:
        """Whether a blank or a line feed must follow the line; otherwise the next line continues it."""
        line, following = self._lines[number], self._lines[number + 1]
        if not self._token:
            return not line.endswith(b"{")
        quoted = self._token.startswith(b'"')
        if self._escapes:
            return self._escapes_blank(number, following, quoted)
        if not quoted:
            return self._ends_word(number, following)
        if not self._token.endswith(b'"') or len(self._token) == 1:
            return False
        if _FIELD.match(following) or following[:1] in _SEPARATORS or not self._may_be_cut(number):
            return True
        if not self._is_value and self._length <= _NAME_LENGTH and following.startswith(b'"'):
            raise malformed(_UNKNOWN_END)
        return False

    def _ends_word(self, number: int, following: bytes) -> bool:
        if not self._may_be_cut(number):
            return True
        if _FIELD.match(following):
            raise malformed(_UNKNOWN_END)
        return False

    def _escapes_blank(self, number: int, following: bytes, quoted: bool) -> bool:
        """Whether the backslash at the end of the line belongs to a blank or line feed within the token."""
        found = _BACKSLASHES.match(following)
        if found is None:
            if following[:1] in (b"", b"\t"):
                return False
            if following[:1] not in _SEPARATORS:
                return True
            if not quoted and self._may_be_cut(number) and following[:1] in b")}":
                raise malformed(_UNKNOWN_END)
            return not quoted and not self._may_be_cut(number)
        count, after = found.end(), following[found.end() : found.end() + 1]
        if not after and not self._may_be_cut(number + 1):
            return count % 2 == 1  # so that the following line ends with one that escapes, too
        if not after or (not quoted and not self._may_be_cut(number)):
            return not self._may_be_cut(number)
        if not quoted and after in _SEPARATORS:
            raise malformed(_UNKNOWN_END)
        # Together with those before a separator, one is left for that; the others stand in pairs.
        return (count % 2 == 1) == (after in _SEPARATORS or after == b"\t")

    def _may_be_cut(self, number: int) -> bool:
        """Whether the line is as long as PostgreSQL makes one that has no blank, line feeds within tokens included."""
        length = -1
        for place in range(number, -1, -1):
            if place < number and not all(self._goes_on[place : place + 1]):
                return False
            length += 1 + len(self._lines[place])
            if length >= _LINE_LENGTH or b" " in self._lines[place][1:]:
                return length == _LINE_LENGTH and b" " not in self._lines[place][1:]
        return False


def datum(length: str, content: str | bytes) -> bytes:
    """Return the bytes of a datum, of that length: `content` is their numbers, or the bytes."""
    try:
        if isinstance(content, bytes):
            data = content
        elif len(content) <= _SLICE:
            data = bytes(map(_BYTES.__getitem__, content.split()))
        else:
            data = b"".join(bytes(map(_BYTES.__getitem__, part.split())) for part in _slices(content, " "))
    except KeyError:
        raise malformed("a constant") from None
    size = int(length)
    # A value passed by value is written as the eight bytes of a Datum, whatever its length is.
    if size > len(data):
        raise malformed("a constant shorter than its length")
    return data[:size] if 0 < size < len(data) else data
