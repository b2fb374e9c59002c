"""What a COPY reader hands on, and the errors that it raises: PostgreSQL's words, code 22P04, and its CONTEXT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.values.cells import Bytes, Integers, Mask, joined, offsets_of, payload_of, slices

_SHOWN_CHARACTERS: Final = 100  # MAX_COPY_DATA_DISPLAY


@dataclass(frozen=True, slots=True)
class Source:
    """Rows as they stand in the data: the bytes begins[i] … ends[i] of a block, without `line_end`.

    With `spanning`, a row may hold line ends (csv), which PostgreSQL counts as lines.
    """

    block: Bytes
    begins: Integers
    ends: Integers
    line_end: bytes = b""
    spanning: bool = False

    def chosen(self, rows: Mask | slice) -> Source:
        """Those rows alone."""
        return Source(self.block, self.begins[rows], self.ends[rows], self.line_end, self.spanning)

    def data(self) -> bytes:
        """The rows with their line ends, one after another."""
        rows = slices(self.block, self.begins, self.ends)
        return payload_of(joined(rows, self.line_end)).tobytes()

    def rows_at(self, lines: Sequence[int]) -> Integers:
        """The numbers, from 0, of the rows that PostgreSQL has in its `lines` of `data`."""
        if not self.spanning:
            return np.array(lines, np.int64) - 1
        rows = slices(self.block, self.begins, self.ends)
        payload, offsets = payload_of(rows), offsets_of(rows)
        counted = np.flatnonzero(payload == ord("\n" if self.line_end == b"\n" else "\r")) + int(offsets[0])
        if self.line_end == b"\n":  # before it has met the first line's end, it counts the other kind
            first = np.flatnonzero(payload[: offsets[1] - offsets[0]] == ord("\r")) + int(offsets[0])
            counted = np.concatenate((first, counted[counted >= offsets[1]]))
        within = np.searchsorted(counted, offsets[1:])  # line ends within the rows up to each
        found: Integers = np.searchsorted(within + np.arange(1, len(rows) + 1), np.array(lines, np.int64))
        return found


@dataclass(frozen=True, slots=True)
class CopyBatch:
    """Rows as they were read: columns of string (text, csv) or binary (binary) values, nulls among them.

    `defaults[i]`, where not None, is true for each field of column i that holds the DEFAULT marker (null in `fields`).
    `lines[i]` is the input line (text, csv) or the row (binary) that row i begins at, counted from 1, for CONTEXT.
    Where `judged`, PostgreSQL has to look at all rows as they stand in the data: `fields` hold nothing.
    """

    fields: pa.RecordBatch
    defaults: tuple[Mask | None, ...]
    lines: pa.Int64Array
    source: Source
    judged: bool = False

    def chosen(self, rows: Mask | slice) -> CopyBatch:
        """Those rows alone."""
        if isinstance(rows, slice):
            part = rows.indices(self.fields.num_rows)
            first, count = part[0], max(part[1] - part[0], 0)
            fields, lines = self.fields.slice(first, count), self.lines.slice(first, count)
        else:
            fields, lines = self.fields.filter(pa.array(rows)), self.lines.filter(pa.array(rows))
        defaults = tuple(None if mask is None else mask[rows] for mask in self.defaults)
        return CopyBatch(fields, defaults, lines, self.source.chosen(rows), self.judged)


def bad_format(message: str, context: str | None = None) -> SluiceError:
    """22P04, with a CONTEXT such as `COPY t, line 2: "a"`."""
    error = SluiceError(SqlState.BAD_COPY_FILE_FORMAT, message)
    if context is not None:
        error.fields["W"] = context
    return error


def line_context(relation: str, line: int, content: bytes | None = None) -> str:
    """The CONTEXT of an error in a line. Long lines are cut as PostgreSQL cuts them."""
    if content is None:
        return f"COPY {relation}, line {line}"
    text = content.decode("utf-8", "replace")
    if len(content) > _SHOWN_CHARACTERS:
        text = content[:_SHOWN_CHARACTERS].decode("utf-8", "ignore") + "..."
    return f'COPY {relation}, line {line}: "{text}"'
