"""Changes of rows: INSERT, UPDATE, DELETE and MERGE, with subqueries inside and RETURNING."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.answers.expressions import Expression, listed
from tests.answers.queries import Query, Source, Target
from tests.answers.tree import OPTIONAL, Node, some


def _returned(targets: tuple[Target, ...]) -> str:
    return f" RETURNING {listed(targets)}" if targets else ""


def _where(conditions: tuple[Expression, ...]) -> str:
    return f" WHERE {' AND '.join(each.sql() for each in conditions)}" if conditions else ""


@dataclass(frozen=True)
class Change(Node):
    """A statement that changes rows of a table."""

    table: str
    alias: str


@dataclass(frozen=True)
class Assignment(Node):
    column: str
    value: Expression

    def sql(self) -> str:
        return f"{self.column} = {self.value.sql()}"


@dataclass(frozen=True)
class Conflict(Node):
    """ON CONFLICT; without assignments DO NOTHING."""

    assignments: tuple[Assignment, ...] = ()
    where: tuple[Expression, ...] = ()

    def sql(self) -> str:
        if not self.assignments:
            return " ON CONFLICT (id) DO NOTHING"
        return f" ON CONFLICT (id) DO UPDATE SET {listed(self.assignments)}{_where(self.where)}"


@dataclass(frozen=True)
class Insert(Change):
    """The query's columns have the names of the table's."""

    query: Query
    conflict: Conflict | None = field(default=None, metadata=OPTIONAL)
    returning: tuple[Target, ...] = ()

    def sql(self) -> str:
        conflict = "" if self.conflict is None else self.conflict.sql()
        into = f"{self.table} AS {self.alias} ({', '.join(self.query.names())})"
        return f"INSERT INTO {into} {self.query.sql()}{conflict}{_returned(self.returning)}"


@dataclass(frozen=True)
class Update(Change):
    assignments: tuple[Assignment, ...] = some()
    source: Source | None = field(default=None, metadata=OPTIONAL)
    where: tuple[Expression, ...] = ()
    returning: tuple[Target, ...] = ()

    def sql(self) -> str:
        source = "" if self.source is None else f" FROM {self.source.sql()}"
        return (
            f"UPDATE {self.table} AS {self.alias} SET {listed(self.assignments)}{source}{_where(self.where)}"
            f"{_returned(self.returning)}"
        )


@dataclass(frozen=True)
class Delete(Change):
    source: Source | None = field(default=None, metadata=OPTIONAL)
    where: tuple[Expression, ...] = ()
    returning: tuple[Target, ...] = ()

    def sql(self) -> str:
        source = "" if self.source is None else f" USING {self.source.sql()}"
        return f"DELETE FROM {self.table} AS {self.alias}{source}{_where(self.where)}{_returned(self.returning)}"


@dataclass(frozen=True)
class Action(Node):
    """WHEN … THEN. `inserted` gives the columns of a new row."""

    matched: str  # MATCHED, NOT MATCHED, NOT MATCHED BY SOURCE
    word: str  # UPDATE, DELETE, DO NOTHING, INSERT
    condition: Expression | None = field(default=None, metadata=OPTIONAL)
    assignments: tuple[Assignment, ...] = ()

    def sql(self) -> str:
        condition = "" if self.condition is None else f" AND {self.condition.sql()}"
        return f"WHEN {self.matched}{condition} THEN {self._action()}"

    def _action(self) -> str:
        if self.word == "UPDATE":
            return f"UPDATE SET {listed(self.assignments)}"
        if self.word == "INSERT":
            columns = ", ".join(each.column for each in self.assignments)
            return f"INSERT ({columns}) VALUES ({', '.join(each.value.sql() for each in self.assignments)})"
        return self.word


@dataclass(frozen=True)
class Merge(Change):
    """`on` matches a row of the source with one of the table at most."""

    source: Source
    on: Expression
    actions: tuple[Action, ...] = some()
    returning: tuple[Target, ...] = ()

    def sql(self) -> str:
        actions = " ".join(each.sql() for each in self.actions)
        return (
            f"MERGE INTO {self.table} AS {self.alias} USING {self.source.sql()} ON {self.on.sql()} {actions}"
            f"{_returned(self.returning)}"
        )
