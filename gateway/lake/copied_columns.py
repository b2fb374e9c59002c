"""The columns that COPY takes or gives, in the data's order: those that it names, or all but the generated ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from catalog.errors import SluiceError
from catalog.model import Column, Table


def copied_columns(table: Table, names: Sequence[str] | None, generated: Collection[int]) -> list[Column]:
    """PostgreSQL's own error for a name that is none of them. `generated` are attribute numbers."""
    if names is None:
        return [column for column in table.columns if column.attnum not in generated]
    by_name = {column.name: column for column in table.columns}
    chosen: list[Column] = []
    for name in names:
        column = by_name.get(name)
        if column is None:
            raise SluiceError("42703", f'column "{name}" of relation "{table.name}" does not exist')
        if column in chosen:
            raise SluiceError("42701", f'column "{name}" specified more than once')
        if column.attnum in generated:
            raise SluiceError(
                "42P10",
                f'column "{name}" is a generated column',
                detail="Generated columns cannot be used in COPY.",
            )
        chosen.append(column)
    return chosen
