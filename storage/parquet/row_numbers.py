"""Row numbers within a table, of which PostgreSQL's `ctid` is made.

A row's number is its file's first number and its position in the file. The first number of a published file is
DuckLake's `row_id_start`, which no other file of the table ever has. So the number stays while the row stays in place,
and never means another row. A transaction's unpublished files come behind all others, in the order in which they were
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.model import DataFile

# Numbers have 47 bits, so that they fit into a ctid.
_UNPUBLISHED: Final = 1 << 46


def first_numbers(files: Sequence[DataFile]) -> dict[str, int]:
    """Return the number of the first row of each file of a table's version, by path."""
    numbers, following = {}, _UNPUBLISHED
    for file in files:
        if file.row_id_start is None:
            numbers[file.path] = following
            following += file.record_count
        else:
            numbers[file.path] = file.row_id_start
    return numbers
