"""Small tables of every type, with a history: rows in several inserts, deletions, columns added, dropped and
retyped. Some are sorted, divided or indexed, and have generated columns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.answers.relations import FUNCTIONS, View, views_of
from tests.answers.tree import shorter
from tests.answers.types import KINDS, LABELS, TYPES


@dataclass(frozen=True)
class Column:
    """`generated`: the expression of a generated column, and how it is kept."""

    name: str
    kind: str
    declared: str
    generated: str = ""

    def sql(self) -> str:
        return f"{self.name} {self.declared}" + (f" GENERATED ALWAYS AS {self.generated}" if self.generated else "")


@dataclass(frozen=True)
class Copied:
    """COPY, with its rows as text."""

    sql: str
    rows: str


class Layout(str):
    """A statement about files, which PostgreSQL does not have."""

    __slots__ = ()


Statement = str | Copied
Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Load:
    """Rows that come in one go."""

    names: tuple[str, ...]
    rows: tuple[Values, ...]
    copied: bool


@dataclass(frozen=True)
class Table:
    """`columns` are those of the end. `steps` are loads of rows, and other statements, in their order."""

    name: str
    columns: tuple[Column, ...]
    first: tuple[Column, ...]
    steps: tuple[Load | str, ...]

    def statements(self) -> Iterator[Statement]:
        yield f"CREATE TABLE {self.name} ({', '.join(each.sql() for each in self.first)})"
        for step in self.steps:
            if isinstance(step, str):
                yield step
            elif step.rows:
                yield self._loaded(step)

    def _loaded(self, load: Load) -> Statement:
        names = f"{self.name} ({', '.join(load.names)})"
        if load.copied:
            return Copied(f"COPY {names} FROM STDIN", "".join(
                "\t".join("\\N" if each is None else each.replace("\\", "\\\\") for each in row) + "\n"
                for row in load.rows
            ))  # fmt: skip
        rows = ", ".join(
            "(" + ", ".join("NULL" if each is None else f"'{each}'" for each in row) + ")" for row in load.rows
        )
        return f"INSERT INTO {names} VALUES {rows}"

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)


@dataclass(frozen=True)
class World:
    """The tables that queries are asked of, views over them, functions, and the time zone."""

    tables: tuple[Table, ...]
    zone: str = "UTC"
    views: tuple[View, ...] = ()
    functions: tuple[str, ...] = ()

    def statements(self) -> Iterator[Statement]:
        yield f"SET timezone = '{self.zone}'"
        labels = ", ".join(f"'{each}'" for each in LABELS)
        yield f"CREATE TYPE mood AS ENUM ({labels})"
        yield from TYPES
        yield from self.functions
        for table in self.tables:
            yield from table.statements()
        yield from (each.sql for each in self.views)

    def simpler(self) -> Iterator[World]:
        """With fewer views, functions, tables, steps, rows."""
        for views in shorter(self.views):
            yield replace(self, views=views)
        for functions in shorter(self.functions):
            yield replace(self, functions=functions)
        for tables in shorter(self.tables, 1):
            yield replace(self, tables=tables)
        for number, table in enumerate(self.tables):
            for simpler in _simpler(table):
                yield replace(self, tables=(*self.tables[:number], simpler, *self.tables[number + 1 :]))


def _simpler(table: Table) -> Iterator[Table]:
    for number, step in enumerate(table.steps):
        before, behind = table.steps[:number], table.steps[number + 1 :]
        if isinstance(step, str):
            yield replace(table, steps=(*before, *behind))
        else:
            for rows in shorter(step.rows):
                yield replace(table, steps=(*before, replace(step, rows=rows), *behind))


_ZONES: Final = ("UTC", "Europe/Zurich", "America/New_York", "Asia/Kolkata")
# Retyped from what was declared first; every value of the former fits.
_RETYPED: Final = {
    "int4": ("int2", "int4"), "int8": ("int4", "int8"), "numeric(8,2)": ("int2", "numeric(8,2)"),
    "text": ("varchar(8)", "text"), "varchar(8)": ("text", "varchar(8)"),
}  # fmt: skip


_GENERATED: Final = ("(id % 3 + 1) STORED", "(id % 3 + 1) VIRTUAL", "(id / 2) STORED")
_LAYOUTS: Final = (
    "sluice.sort_by = 'k'", "sluice.sort_by = 'c_date DESC, k'", "sluice.partition_by = 'k'",
    "sluice.partition_by = 'month(c_date), bucket(3, k)'", "sluice.partition_by = 'k', sluice.sort_by = 'c_text'",
)  # fmt: skip
KEYED: Final = ("t2", "t4")  # those that get a primary key
_CORE: Final = ("int4", "text", "numeric", "date")


def world(chance: random.Random) -> World:
    """Four tables; the first has every type."""
    tables = []
    for number in range(1, 5):
        kinds = list(KINDS)
        if number > 1:
            kinds = list(_CORE) + chance.sample([each for each in kinds if each not in _CORE], chance.randint(2, 8))
        tables.append(_table(chance, f"t{number}", kinds, 6 if number == 4 else chance.randint(7, 13)))
    return World(tuple(tables), chance.choice(_ZONES), views_of(chance), FUNCTIONS)


def _table(chance: random.Random, name: str, kinds: list[str], rows: int) -> Table:
    columns = [Column("id", "int4", "int4"), Column("k", "int4", "int4")]
    for kind in kinds:
        declared = chance.choice(KINDS[kind].declared)
        columns.append(Column("c_" + kind.replace("[]", "s"), kind, declared))
    added = columns[-chance.randint(1, 2) :]
    retyped = chance.choice(
        [each for each in columns if each.declared in _RETYPED and each not in added and each.name != "id"]
    )
    narrow, wide = _RETYPED[retyped.declared]
    first = [replace(each, declared=narrow) if each == retyped else each for each in columns if each not in added]
    first.insert(2, Column("gone", "text", "text"))
    if chance.random() < 0.4:
        generated = Column("made", "int4", "int4", chance.choice(_GENERATED))
        columns, first = [*columns, generated], [*first, generated]
    marks = iter(range(1, 1000))
    steps: list[Load | str] = [_load(chance, first, rows // 3, marks, copied=False)]
    steps += [f"ALTER TABLE {name} ADD COLUMN {each.sql()} DEFAULT {_default(chance, each)}" for each in added]
    steps.append(_load(chance, [*first, *added], rows // 3 + 1, marks, copied=True))
    steps.append(f"ALTER TABLE {name} DROP COLUMN gone")
    steps.append(f"ALTER TABLE {name} ALTER COLUMN {retyped.name} TYPE {wide}")
    if chance.random() < 0.3:
        steps.append(Layout(f"ALTER TABLE {name} SET ({chance.choice(_LAYOUTS)})"))
    if chance.random() < 0.2:
        steps.append(f"CREATE INDEX ON {name} ({chance.choice(('k', 'c_int4', 'c_text, k', 'c_date'))})")
    if chance.random() < 0.3:
        steps.append(f"VACUUM FULL {name}")
    steps.append(_load(chance, columns, rows - 2 * (rows // 3) + 1, marks, copied=chance.random() < 0.5))
    steps.append(f"DELETE FROM {name} WHERE id % {chance.choice((4, 5, 7))} = 0")
    if chance.random() < 0.3:
        steps.append(f"UPDATE {name} SET k = k + 1 WHERE id % 3 = 0")
    if name in KEYED:
        steps.append(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    return Table(name, tuple(columns), tuple(first), tuple(steps))


def _default(chance: random.Random, column: Column) -> str:
    return KINDS[column.kind].literal(chance.choice(KINDS[column.kind].texts))


def _load(chance: random.Random, columns: list[Column], rows: int, marks: Iterator[int], *, copied: bool) -> Load:
    columns = [each for each in columns if not each.generated]
    return Load(
        tuple(each.name for each in columns),
        tuple(tuple(_value(chance, each, marks) for each in columns) for _ in range(max(1, rows))),
        copied,
    )


def _value(chance: random.Random, column: Column, marks: Iterator[int]) -> str | None:
    if column.name == "id":
        return str(next(marks))
    if chance.random() < 0.17:
        return None
    if column.name == "k":
        return chance.choice(("1", "2", "3", "4"))
    return chance.choice([each for each in KINDS[column.kind].texts if _fits(column.declared, each)])


def _fits(declared: str, text: str) -> bool:
    """Whether a text is a value of the type."""
    if declared in {"int2", "int4"}:
        return "." not in text and len(text) < 6
    return True
