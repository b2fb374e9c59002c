"""The columns that COPY reads or writes, in the data's order: the named ones, or all but the generated ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from catalog.errors import SluiceError
from catalog.model import Column, Table


def copied_columns(table: Table, names: Sequence[str] | None, generated: Collection[int]) -> list[Column]:
    """The columns of a table that PostgreSQL has accepted already. `generated` are attribute numbers."""
    if names is None:
        return [column for column in table.columns if column.attnum not in generated]
    by_name = {column.name: column for column in table.columns}
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SluiceError("42701", f'column "{name}" specified more than once')
        if name not in by_name:
            raise SluiceError("42703", f'column "{name}" of relation "{table.name}" does not exist')
    return [by_name[name] for name in names]
