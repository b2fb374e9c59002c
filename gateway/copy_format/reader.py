"""COPY … FROM STDIN in text and csv: bytes as they come to record batches of strings.

Bytes are gathered to blocks of whole lines, and a block becomes columns at once: separators by one scan, fields by one
`take` per column. Errors come in the order of the input: the rows before a bad line are handed out first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState, unsupported
from gateway.copy_format.fields import CopyBatch, Source, bad_format, line_context
from gateway.copy_format.lines import Fault, LineEnd, LineScanner, Scan
from gateway.copy_format.options import CopyFormat, CopyOptions, Header
from gateway.copy_format.unescape import Shortened, without_escapes, without_quotes
from gateway.values.cells import Bytes, Integers, Mask, gapped, offsets_of, payload_of, take
from gateway.values.converted import validity_buffer
from gateway.wire.messages.layout import text_from

BATCH_BYTES: Final = 8 << 20
# PostgreSQL reads a line into one allocation, which is at most 1 GiB.
_LINE_BYTES_MAX: Final = 0x3FFF_FFFF
_HEXADECIMAL_LETTERS: Final = b"ABCDEF"


class TextReader:
    """Feed payloads as they come; take the batches that each makes before feeding more. `finish` after the last."""

    def __init__(
        self,
        options: CopyOptions,
        names: Sequence[str],
        relation: str = "",
        batch_bytes: int = BATCH_BYTES,
        without_default: Collection[int] = (),
    ) -> None:
        """`without_default` are the places of columns for which the DEFAULT marker is an error."""
        if not names:
            raise unsupported("COPY into a table without columns")
        if options.format is CopyFormat.TEXT and options.delimiter in _HEXADECIMAL_LETTERS:
            raise unsupported(f'COPY with DELIMITER "{options.delimiter.decode()}"')
        self._options = options
        self._names = list(names)
        self._relation = relation
        self._batch_bytes = batch_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = batch_bytes  # more where a line is longer than a batch
        self._scanner = LineScanner(options)
        self._line = 0  # lines read so far
        self._header_due = options.header is not Header.FALSE
        self._ended = False
        self._null = np.frombuffer(options.null.encode(), np.uint8)
        self._without_default = sorted(without_default)
        self._default = None if options.default is None else np.frombuffer(options.default.encode(), np.uint8)

    def feed(self, data: bytes) -> Iterator[CopyBatch]:
        if self._ended:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= self._wanted:
            yield from self._read(final=False)

    def rest(self) -> Iterator[CopyBatch]:
        """The rows that have come as a whole, for the next may be long in coming."""
        if not self._ended and self._size:
            yield from self._read(final=False)

    def finish(self) -> Iterator[CopyBatch]:
        if not self._ended:
            yield from self._read(final=True)

    def fail(self, error: SluiceError) -> Iterator[CopyBatch]:
        """No more can be read, for this reason: the rows of whole lines, then the error, unless the data has ended."""
        if not self._ended:
            yield from self._read(final=False)
        if not self._ended:
            begun = sum(piece.count(b"\n") for piece in self._pieces)
            error.fields["W"] = line_context(self._relation, self._line + begun + 1)
            raise error

    def _read(self, *, final: bool) -> Iterator[CopyBatch]:
        raw = b"".join(self._pieces)
        block = np.frombuffer(raw, np.uint8)
        sound = self._sound_bytes(raw, block, final=final)
        scan = self._scanner.scan(block[:sound], final=final and sound == len(block))
        rest = raw[scan.used :]
        self._pieces, self._size, self._ended = [rest], len(rest), scan.ended
        self._wanted = max(self._batch_bytes, 2 * len(rest))
        yield from self._batches(block, scan, final=final)
        if self._header_due and self._options.header is Header.MATCH and scan.fault is None and (final or scan.ended):
            # Where there is no line at all, an empty one is the header.
            nothing = np.zeros(1, np.int64)
            self._check_header(block, Scan(nothing, nothing, nothing[:0], nothing[:0], 0), nothing + 1)
        if scan.fault is not None:
            raise self._faulty(scan.fault)
        if sound < len(block) and not scan.ended:
            self._raise_encoding(block, sound)
        if len(rest) > _LINE_BYTES_MAX:
            raise SluiceError(SqlState.PROGRAM_LIMIT_EXCEEDED, "a line of COPY data is longer than 1 GB")

    def _sound_bytes(self, raw: bytes, block: Bytes, *, final: bool) -> int:
        """How many bytes are UTF-8 without NULs; at the end a character may be cut, unless all has been read."""
        sound = len(raw)
        if len(block) and int(block.max()) >= 0x80:
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                cut = error.reason == "unexpected end of data" and not final
                sound = len(raw) if cut else error.start
        nul = raw.find(b"\0", 0, sound)
        return sound if nul < 0 else nul

    def _raise_encoding(self, block: Bytes, place: int) -> None:
        error = _text_error(bytes(block[place:]))
        assert error is not None
        error.fields["W"] = line_context(self._relation, self._line + 1)
        raise error

    def _faulty(self, fault: Fault) -> SluiceError:
        error = bad_format(fault.message, line_context(self._relation, self._line + 1))
        if fault.hint is not None:
            error.fields["H"] = fault.hint
        return error

    def _batches(self, block: Bytes, scan: Scan, *, final: bool) -> Iterator[CopyBatch]:
        count = len(scan.line_ends)
        if count == 0:
            return
        width = len(self._names)
        fields = np.diff(np.concatenate((np.full(1, -1, np.int64), scan.line_ends)))
        lines = self._line_numbers(block, scan)
        unterminated = count - 1 if final and self._open_quote(block, scan) else count
        first = 1 if self._header_due else 0
        if self._header_due:
            self._header_due = False
            if self._options.header is Header.MATCH:
                if unterminated == 0:
                    raise self._bad_line("unterminated CSV quoted field", block, scan, lines, 0)
                self._check_header(block, scan, lines)
            self._line = int(lines[0])
        stop = min(count, unterminated)
        if stop < first:
            return
        ragged = first + np.flatnonzero(fields[first:stop] != width)
        if len(ragged) and self._options.ignores_errors:  # a value may be wrong, and the line is left out then
            yield self._judged(block, scan, lines, first, stop)
        else:
            end = min(stop, *ragged[:1].tolist()) if len(ragged) else stop
            self._line = int(lines[end - 1]) if end else self._line
            if end > first:
                yield from self._whole_rows(block, scan, lines, first, end)
            if end < stop:  # a value that is wrong comes first
                yield self._judged(block, scan, lines, end, end + 1)
                raise self._ragged(block, scan, lines, end, int(fields[end]))
        self._line = int(lines[stop - 1]) if stop else self._line
        if stop < count:
            raise self._bad_line("unterminated CSV quoted field", block, scan, lines, stop)

    def _judged(self, block: Bytes, scan: Scan, lines: Integers, first: int, end: int) -> CopyBatch:
        """Lines for PostgreSQL to look at."""
        fields = pa.RecordBatch.from_arrays([pa.nulls(end - first, pa.string())] * len(self._names), names=self._names)
        source = self._source(block, scan, first, end)
        return CopyBatch(fields, (None,) * len(self._names), pa.array(lines[first:end]), source, judged=True)

    def _whole_rows(self, block: Bytes, scan: Scan, lines: Integers, first: int, end: int) -> Iterator[CopyBatch]:
        """The rows up to one that PostgreSQL would not take whatever its types; then what is wrong with that."""
        columns, defaults = self._columns(block, scan, first, end, len(self._names))
        row, error = self._bad_row(columns, defaults, block, scan, lines, first, end - first)
        if row:
            good = [column.slice(0, row) for column in columns]
            masks = tuple(None if mask is None else mask[:row] for mask in defaults)
            fields = pa.RecordBatch.from_arrays(good, names=self._names)
            source = self._source(block, scan, first, first + row)
            yield CopyBatch(fields, masks, pa.array(lines[first : first + row]), source)
        if error is not None:
            raise error

    def _bad_row(  # noqa: PLR0917
        self,
        columns: Sequence[pa.StringArray],
        defaults: Sequence[Mask | None],
        block: Bytes,
        scan: Scan,
        lines: Integers,
        first: int,
        rows: int,
    ) -> tuple[int, SluiceError | None]:
        """The first row that has an escape which makes no character, or a DEFAULT marker where there is no default, and
        what is wrong with it; else how many rows there are."""
        found = list(self._unexpected_defaults(defaults))
        if self._options.format is CopyFormat.TEXT and len(scan.special):
            unsound = enumerate(map(_first_unsound, columns))
            found += [(row, place, True) for place, row in unsound if row is not None]
        if not found:
            return rows, None
        row, place, is_unsound = min(found)
        if not is_unsound:
            return row, self._default_fault(place, block, scan, lines, first + row)
        error = _text_error(columns[place].view(pa.binary())[row].as_py())
        assert error is not None
        content = self._content(block, scan, first + row)
        error.fields["W"] = line_context(self._relation, int(lines[first + row]), content)
        return row, error

    def _ragged(self, block: Bytes, scan: Scan, lines: Integers, line: int, found: int) -> SluiceError:
        """What is wrong with a line that has too many or too few fields, if its values are right."""
        columns, defaults = self._columns(block, scan, line, line + 1, found)
        _, error = self._bad_row(columns, defaults, block, scan, lines, line, 1)
        if error is not None:
            return error
        if found > len(self._names):
            return self._bad_line("extra data after last expected column", block, scan, lines, line)
        missing = f'missing data for column "{self._names[found]}"'
        return self._bad_line(missing, block, scan, lines, line)

    def _unexpected_defaults(self, defaults: Sequence[Mask | None]) -> Iterator[tuple[int, int, bool]]:
        """For each column without a default, the first row with the DEFAULT marker there, and the column."""
        for place in self._without_default:
            if place < len(defaults) and (mask := defaults[place]) is not None and mask.any():
                yield int(np.argmax(mask)), place, False

    def _default_fault(self, place: int, block: Bytes, scan: Scan, lines: Integers, line: int) -> SluiceError:
        error = self._bad_line("unexpected default marker in COPY data", block, scan, lines, line)
        error.fields["D"] = f'Column "{self._names[place]}" has no default value.'
        return error

    def _bad_line(self, message: str, block: Bytes, scan: Scan, lines: Integers, line: int) -> SluiceError:
        return bad_format(message, line_context(self._relation, int(lines[line]), self._content(block, scan, line)))

    def _open_quote(self, block: Bytes, scan: Scan) -> bool:
        """Whether the input ends within quotes."""
        if self._options.format is not CopyFormat.CSV or scan.used < len(block):
            return False
        return len(scan.special) % 2 == 1  # escapes, and what they escape, come in twos

    def _begins(self, scan: Scan) -> Integers:
        """The first byte of each field, in the order of the separators that end them."""
        begins = np.empty(len(scan.separators), np.int64)
        begins[:1] = 0
        begins[1:] = scan.separators[:-1] + 1
        if self._scanner.line_end is LineEnd.BOTH:
            after = scan.line_ends[:-1] + 1
            begins[after] += 1
        return begins

    def _content(self, block: Bytes, scan: Scan, line: int) -> bytes:
        first = 0 if line == 0 else int(scan.line_ends[line - 1]) + 1
        begin = int(self._begins(scan)[first])
        return bytes(block[begin : scan.separators[scan.line_ends[line]]])

    def _line_numbers(self, block: Bytes, scan: Scan) -> Integers:
        """For each line the number that PostgreSQL gives it: that of its last physical line in csv."""
        numbers: Integers = self._line + 1 + np.arange(len(scan.line_ends), dtype=np.int64)
        if self._options.format is CopyFormat.CSV and len(scan.special):
            end = scan.separators[scan.line_ends]
            byte = b"\n" if self._scanner.line_end is LineEnd.NEWLINE else b"\r"
            ends = np.flatnonzero(block[: scan.used] == byte[0])
            if self._line == 0 and byte == b"\n":  # before it has met a line's end, PostgreSQL counts the other kind
                ends = np.concatenate((np.flatnonzero(block[: end[0]] == ord("\r")), ends[ends >= end[0]]))
            numbers = self._line + np.searchsorted(ends, end) + 1
        return numbers

    def _check_header(self, block: Bytes, scan: Scan, lines: Integers) -> None:
        width = int(scan.line_ends[0]) + 1
        columns, _ = self._columns(block, scan, 0, 1, width)
        if width != len(self._names):
            message = f"wrong number of fields in header line: got {width}, expected {len(self._names)}"
            raise self._bad_line(message, block, scan, lines, 0)
        for place, (column, name) in enumerate(zip(columns, self._names, strict=True), start=1):
            found = column[0].as_py()
            if found == name:
                continue
            shown = f'null value ("{self._options.null}")' if found is None else f'"{found}"'
            message = f'column name mismatch in header line field {place}: got {shown}, expected "{name}"'
            raise self._bad_line(message, block, scan, lines, 0)

    def _source(self, block: Bytes, scan: Scan, first: int, end: int) -> Source:
        line_end = self._scanner.line_end.value or b"\n"
        ends = scan.separators[scan.line_ends[first:end]]
        begins = np.empty(end - first, np.int64)
        begins[:1] = 0 if first == 0 else scan.separators[scan.line_ends[first - 1]] + len(line_end)
        begins[1:] = ends[:-1] + len(line_end)
        spanning = self._options.format is CopyFormat.CSV and len(scan.special) > 0
        return Source(block, begins, ends, line_end, spanning)

    def _columns(
        self, block: Bytes, scan: Scan, first: int, end: int, width: int
    ) -> tuple[list[pa.StringArray], tuple[Mask | None, ...]]:
        """The fields of lines first … end, all of which have `width`."""
        start = 0 if first == 0 else int(scan.line_ends[first - 1]) + 1
        stop = start + (end - first) * width
        begins = self._begins(scan)[start:stop]
        ends = scan.separators[start:stop]
        marked = self._marked(begins, ends, scan.special)
        csv = self._options.format is CopyFormat.CSV
        nulls = self._equal(block, begins, ends, self._null)
        defaults = None if self._default is None else self._equal(block, begins, ends, self._default)
        if csv and marked is not None:
            nulls &= ~marked
            if defaults is not None:
                defaults &= ~marked
        if defaults is not None:
            defaults &= ~nulls
        shortened = self._unescaped(block, scan, begins, ends, nulls if defaults is None else nulls | defaults)
        new_begins, new_ends = shortened.fields(begins, ends)
        pieces = gapped(shortened.block, new_begins, new_ends)
        columns = []
        for place in range(width):
            at = slice(place, None, width)
            null = nulls[at]
            if csv:
                null = self._forced(place, shortened.block, new_begins[at], new_ends[at], null)
            if defaults is not None:
                null = null | defaults[at]
            values = take(pieces, np.arange(2 * place, 2 * len(begins), 2 * width))
            buffers = [validity_buffer(~null), *values.buffers()[1:]]
            columns.append(pa.Array.from_buffers(pa.string(), len(null), buffers))
        return columns, tuple(None if defaults is None else defaults[place::width] for place in range(width))

    def _marked(self, begins: Integers, ends: Integers, special: Integers) -> Mask | None:
        """Which fields hold an escape or a quote; None where none does."""
        if not len(special):
            return None
        owner = np.searchsorted(ends, special)
        owner = owner[(owner < len(ends)) & (special >= begins[np.minimum(owner, len(ends) - 1)])]
        marked = np.zeros(len(ends), np.bool_)
        marked[owner] = True
        return marked

    def _equal(self, block: Bytes, begins: Integers, ends: Integers, word: Bytes) -> Mask:
        """Which fields are these bytes, as they stand in the input."""
        equal: Mask = (ends - begins) == len(word)
        for place, byte in enumerate(word):
            candidates = np.flatnonzero(equal)
            if not len(candidates):
                break
            equal[candidates] = block[begins[candidates] + place] == byte
        return equal

    def _unescaped(self, block: Bytes, scan: Scan, begins: Integers, ends: Integers, skip: Mask) -> Shortened:
        """The block without escapes or quotes. Those of fields that are null as they stand do not matter."""
        if not len(scan.special):
            return Shortened(block, np.zeros(0, np.int64))
        if self._options.format is CopyFormat.CSV:
            return without_quotes(block, scan.special, scan.content)
        field = np.searchsorted(ends, scan.special)
        inside = field < len(ends)
        field = np.minimum(field, len(ends) - 1)
        inside &= (scan.special >= begins[field]) & ~skip[field]
        escapes = scan.special[inside]
        if not len(escapes):
            return Shortened(block, np.zeros(0, np.int64))
        return without_escapes(block[: int(scan.used)], escapes)

    def _forced(self, place: int, block: Bytes, begins: Integers, ends: Integers, null: Mask) -> Mask:
        """FORCE_NOT_NULL and FORCE_NULL. A null that must not be one is the null string itself."""
        forced = np.zeros(len(null), np.bool_) if place in self._options.force_not_null else null
        if place in self._options.force_null:
            forced = forced | (self._equal(block, begins, ends, self._null) & ~null)
        return forced


def _text_error(raw: bytes) -> SluiceError | None:
    """22021 for what is not UTF-8, or holds a NUL."""
    before, nul, _ = raw.partition(b"\0")
    try:
        before.decode()
    except UnicodeDecodeError:
        try:
            text_from(raw)
        except SluiceError as error:
            return error
    if nul:
        return SluiceError(SqlState.CHARACTER_NOT_IN_REPERTOIRE, 'invalid byte sequence for encoding "UTF8": 0x00')
    return None


def _first_unsound(column: pa.StringArray) -> int | None:
    """The first value that holds a NUL or is no UTF-8."""
    raw = column.view(pa.binary())
    payload = payload_of(raw)
    if not len(payload) or (int(payload.max()) < 0x80 and int(payload.min()) > 0):
        return None
    suspects = payload == 0
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        suspects |= payload >= 0x80
    if not suspects.any():
        return None
    offsets = offsets_of(raw)
    rows = np.unique(np.searchsorted(offsets, np.flatnonzero(suspects) + int(offsets[0]), side="right") - 1)
    for row in rows.tolist():  # there is an error to be raised: this is the end of the load
        if _text_error(raw[row].as_py() or b"") is not None:
            return int(row)
    return None
