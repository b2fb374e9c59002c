"""Where lines and fields end: COPY's text and csv formats scanned as whole blocks of bytes.

A block begins at the beginning of a line. A scan finds the separators that are none of the data (not escaped, not
quoted), and what stands in the way of reading on. Nothing loops over bytes, lines or fields.

Source: `CopyReadLineText`, `CopyReadAttributesText` and `CopyReadAttributesCSV` in copyfromparse.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from gateway.copy_format.options import CopyFormat, CopyOptions
from gateway.values.cells import Bytes, Integers, Mask

_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_BACKSLASH: Final = ord("\\")
_NONE: Final = np.zeros(0, np.int64)
_NOT_ALONE: Final = "end-of-copy marker is not alone on its line"
_OTHER_STYLE: Final = "end-of-copy marker does not match previous newline style"


class LineEnd(Enum):
    """How lines end; the first line decides."""

    UNKNOWN = b""
    NEWLINE = b"\n"
    RETURN = b"\r"
    BOTH = b"\r\n"


class Fault(NamedTuple):
    """Why the line after those of the scan cannot be read."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """The whole lines of a block.

    `separators` are the places of delimiters and line ends (of the first byte of each) in order, `line_ends` the places
    in `separators` of the latter. `special` are the places of the escapes (text: the backslash; csv: the quotes and
    escapes that mean something), `content` those that stand for themselves nevertheless. `used` bytes of the block
    are done with; `ended` after the end-of-data marker.
    """

    separators: Integers
    line_ends: Integers
    special: Integers
    content: Integers
    used: int
    ended: bool = False
    fault: Fault | None = None


class LineScanner:
    """Scans one block after another; remembers how lines end."""

    def __init__(self, options: CopyOptions) -> None:
        self._delimiter = options.delimiter[0]
        self._csv = options.format is CopyFormat.CSV
        self._quote, self._escape = options.quote[0], options.escape[0]
        self.line_end = LineEnd.UNKNOWN

    def scan(self, block: Bytes, *, final: bool, marked: bool = False) -> Scan:
        """`final` where no bytes follow: the last line then ends at the end of the block, line end or not. `marked`
        where the end-of-data marker follows."""
        special, content, hidden = self._csv_special(block) if self._csv else _text_special(block)
        if not self._csv:
            inside = special[special + 1 < len(block)]
            markers = inside[block[inside + 1] == ord(".")]
            if len(markers):
                return self._scan_to_marker(block, int(markers[0]), final=final)
        marks = hidden.visible(np.flatnonzero(self._marks(block)))
        is_end, fault, last = self._line_ends(block, marks, decided=final or marked)
        kept = is_end | (block[marks] == self._delimiter)
        width = len(self.line_end.value) or 1
        used = last + width if last >= 0 else 0
        separators, is_end = marks[kept], is_end[kept]
        if final and fault is None and used < len(block):
            # The last line has no end: as if there were one just behind the block.
            # A backslash that would escape what is behind it belongs to no field.
            dangling = not self._csv and len(special) > 0 and int(special[-1]) == len(block) - 1
            separators = np.append(separators, len(block) - dangling)
            line_ends = np.flatnonzero(np.append(is_end, np.True_))
            used = len(block)
        else:
            whole = int(np.searchsorted(separators, used))
            separators, line_ends = separators[:whole], np.flatnonzero(is_end[:whole])
        return Scan(separators, line_ends, special[special < used], content[content < used], used, fault=fault)

    def _marks(self, block: Bytes) -> Mask:
        """Every byte that might separate."""
        marks: Mask = block == self._delimiter
        marks |= block == _NEWLINE
        if _RETURN in block:
            marks |= block == _RETURN
        return marks

    def _scan_to_marker(self, block: Bytes, marker: int, *, final: bool) -> Scan:
        r"""`\.` ends the data where it is alone on its line, and is an error elsewhere."""
        found = self.scan(block[:marker], final=False, marked=True)
        after = bytes(block[marker + 2 : marker + 4])
        wanted = 2 if self.line_end is LineEnd.BOTH else 1
        if found.fault is not None or (len(after) < wanted and not final):
            return found
        fault = self._marker_fault(after, alone=found.used == marker)
        used = found.used if fault is not None else len(block)
        return Scan(found.separators, found.line_ends, found.special, found.content, used, fault is None, fault)

    def _marker_fault(self, after: bytes, *, alone: bool) -> Fault | None:
        end = self.line_end
        if end is LineEnd.BOTH:
            if after[:1] == b"\n":
                return Fault(_OTHER_STYLE)
            if after[:1] != b"\r":
                return Fault(_NOT_ALONE)
            after = after[1:]
        if after[:1] not in {b"\n", b"\r"}:
            return Fault(_NOT_ALONE)
        if end is not LineEnd.UNKNOWN and after[:1] != end.value[-1:]:
            return Fault(_OTHER_STYLE)
        return None if alone else Fault(_NOT_ALONE)

    def _csv_special(self, block: Bytes) -> tuple[Integers, Integers, _Hidden]:
        """Quotes. They hide what is between an odd one and the next."""
        if self._quote != self._escape:
            return self._csv_escaped(block)
        places = np.flatnonzero(block == self._quote)
        if not len(places):
            return places, _NONE, _Hidden(_NONE, _NONE)
        run_place = _place_in_run(places)
        # A run that begins outside of quotes opens with its first byte; after that, and in a run that begins inside,
        # every second byte is the second of a pair, and stands for a quote.
        inside_before = np.arange(len(places)) % 2 == 1
        begins_inside = np.where(run_place % 2 == 0, inside_before, ~inside_before)
        second = np.where(begins_inside, run_place % 2 == 1, (run_place > 0) & (run_place % 2 == 0))
        return places, places[second], _Hidden(_NONE, places)

    def _csv_escaped(self, block: Bytes) -> tuple[Integers, Integers, _Hidden]:
        """Quotes and another escape byte: whether an escape is one depends on the quotes before it and the other way
        round, so this walks from one such byte to the next (not over other bytes, nor where there is no escape)."""
        places = np.flatnonzero((block == self._quote) | (block == self._escape))
        is_quote = block[places] == self._quote
        if is_quote.all():
            return places, _NONE, _Hidden(_NONE, places)
        escapes, content, toggles = [], [], []
        inside = False
        taken = -1
        known = dict(zip(places.tolist(), is_quote.tolist(), strict=True))
        for place, quoted in known.items():
            if place == taken:
                content.append(place)
            elif quoted:
                inside = not inside
                toggles.append(place)
            elif inside and place + 1 in known:
                taken = place + 1
                escapes.append(place)
        special = np.array(sorted([*escapes, *content, *toggles]), np.int64)
        return special, np.array(content, np.int64), _Hidden(_NONE, np.array(toggles, np.int64))

    def _line_ends(self, block: Bytes, marks: Integers, *, decided: bool) -> tuple[Mask, Fault | None, int]:
        """Which of the marks are the first byte of a line end, up to one of another kind than the first line's, which
        is a fault; and the place of the last of them, or -1. `decided` where no newline can follow the block."""
        kinds = block[marks]
        newline, carriage = kinds == _NEWLINE, kinds == _RETURN
        if self.line_end is LineEnd.UNKNOWN:
            self.line_end = _first_line_end(block, marks[newline], marks[carriage], decided=decided)
        nothing = np.zeros(len(marks), np.bool_)
        if self.line_end is LineEnd.UNKNOWN:
            return nothing, None, -1
        if self.line_end is LineEnd.NEWLINE:
            ends, strays = newline, [(carriage, "carriage return")]
        elif self.line_end is LineEnd.RETURN:
            ends, strays = carriage, [(newline, "newline")]
        else:
            places = marks[carriage]
            followed = np.zeros(len(places), np.bool_)
            inner = places + 1 < len(block)
            followed[inner] = block[places[inner] + 1] == _NEWLINE
            ends, single, alone = nothing.copy(), nothing.copy(), newline.copy()
            ends[carriage] = followed
            single[carriage] = ~followed & (inner | decided)
            alone[_contained(marks, places[followed] + 1)] = False
            strays = [(single, "carriage return"), (alone, "newline")]
        found = min(((int(np.argmax(stray)), what) for stray, what in strays if stray.any()), default=None)
        fault = None
        if found is not None:
            ends = ends.copy()
            ends[found[0] :] = False
            fault = self._stray(found[1])
        last = np.flatnonzero(ends)[-1:]
        return ends, fault, int(marks[last[0]]) if len(last) else -1

    def _stray(self, what: str) -> Fault:
        if self._csv:
            return Fault(f"unquoted {what} found in data", f"Use quoted CSV field to represent {what}.")
        letter = "n" if what == "newline" else "r"
        return Fault(f"literal {what} found in data", f'Use "\\{letter}" to represent {what}.')


def _text_special(block: Bytes) -> tuple[Integers, Integers, _Hidden]:
    """Backslashes that begin an escape: those at even places of their run. The byte after one is no separator."""
    places = np.flatnonzero(block == _BACKSLASH)
    if not len(places):
        return places, _NONE, _Hidden(_NONE, _NONE)
    active = places[_place_in_run(places) % 2 == 0]
    return active, _NONE, _Hidden(active + 1, _NONE)


def _first_line_end(block: Bytes, newlines: Integers, returns: Integers, *, decided: bool) -> LineEnd:
    if not len(returns) or (len(newlines) and newlines[0] < returns[0]):
        return LineEnd.NEWLINE if len(newlines) else LineEnd.UNKNOWN
    after = int(returns[0]) + 1
    if after == len(block) and not decided:
        return LineEnd.UNKNOWN
    return LineEnd.BOTH if after < len(block) and block[after] == _NEWLINE else LineEnd.RETURN


@dataclass(frozen=True, slots=True)
class _Hidden:
    """Which bytes are not separators: those at `escaped`, and those between an odd and the next of `toggles`."""

    escaped: Integers
    toggles: Integers

    def visible(self, places: Integers) -> Integers:
        """Those of the places, in order, that count."""
        if len(places) and len(self.escaped):
            places = places[~_contained(places, self.escaped)]
        if len(places) and len(self.toggles):
            inside = np.zeros(max(int(places[-1]), int(self.toggles[-1])) + 1, np.uint8)
            inside[self.toggles] = 1
            np.bitwise_xor.accumulate(inside, out=inside)
            places = places[inside[places] == 0]
        return places


def _contained(places: Integers, among: Integers) -> Mask:
    """Which of `places` occur `among` others; both ascending."""
    if not len(among):
        return np.zeros(len(places), np.bool_)
    at = np.minimum(np.searchsorted(among, places), len(among) - 1)
    found: Mask = among[at] == places
    return found


def _place_in_run(places: Integers) -> Integers:
    """For ascending places, how far each is from the first of its run of neighbours."""
    starts = np.empty(len(places), np.bool_)
    starts[0] = True
    starts[1:] = np.diff(places) != 1
    distance: Integers = places - places[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    return distance
