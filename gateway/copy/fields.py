"""What a COPY reader hands on, and the errors that it raises: PostgreSQL's words, code 22P04, and its CONTEXT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from catalog.errors import SluiceError, SqlState
from gateway.values.cells import Mask

_SHOWN_CHARACTERS: Final = 100  # MAX_COPY_DATA_DISPLAY


@dataclass(frozen=True, slots=True)
class CopyBatch:
    """Rows as they were read: columns of string (text, csv) or binary (binary) values, nulls among them.

    `defaults[i]`, where not None, is true for each field of column i that holds the DEFAULT marker (null in `fields`).
    `lines[i]` is the input line (text, csv) or the row (binary) that row i begins at, counted from 1, for CONTEXT.
    """

    fields: pa.RecordBatch
    defaults: tuple[Mask | None, ...]
    lines: pa.Int64Array


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
