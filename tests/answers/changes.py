"""Changes of rows: INSERT, UPDATE, DELETE and MERGE, with subqueries inside and RETURNING."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.answers.expressions import Expression, listed
from tests.answers.queries import Query, Row, Source, Target
from tests.answers.tree import OPTIONAL, Node, fixed, some, switch


def _returned(targets: tuple[Target, ...]) -> str:
    return f" RETURNING {listed(targets)}" if targets else ""


@dataclass(frozen=True)
class Renamed(Target):
    """The first target of a RETURNING whose old and new rows have other names; one whole row beside."""

    def sql(self) -> str:
        return f"WITH (OLD AS o, NEW AS n) o.id AS oldid, n.k AS newk, {super().sql()}"


def _where(conditions: tuple[Expression, ...]) -> str:
    return f" WHERE {' AND '.join(each.sql() for each in conditions)}" if conditions else ""


@dataclass(frozen=True)
class Change(Node):
    """A statement that changes rows of a table."""

    table: str
    alias: str

    def tables(self) -> tuple[str, ...]:
        """All that it changes."""
        return (self.table,)

    def statements(self) -> tuple[str, ...]:
        """What is sent, one after the other."""
        return (self.sql(),)


@dataclass(frozen=True)
class Assignment(Node):
    column: str
    value: Expression

    def sql(self) -> str:
        return f"{self.column} = {self.value.sql()}"


@dataclass(frozen=True)
class Together(Node):
    """Several columns at once, by a row or a subquery of one."""

    columns: tuple[str, ...]
    values: tuple[Expression, ...] = fixed()
    query: Query | None = None

    def sql(self) -> str:
        given = f"ROW ({listed(self.values)})" if self.query is None else f"({self.query.sql()})"
        return f"({', '.join(self.columns)}) = {given}"


@dataclass(frozen=True)
class Conflict(Node):
    """ON CONFLICT; without assignments DO NOTHING. `target` says by which key."""

    assignments: tuple[Assignment | Together, ...] = ()
    where: tuple[Expression, ...] = ()
    target: str = " (id)"

    def sql(self) -> str:
        if not self.assignments:
            return f" ON CONFLICT{self.target} DO NOTHING"
        return f" ON CONFLICT{self.target} DO UPDATE SET {listed(self.assignments)}{_where(self.where)}"


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
class Given(Change):
    """INSERT of VALUES, with subqueries and DEFAULT among them."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...] = some()
    conflict: Conflict | None = field(default=None, metadata=OPTIONAL)
    returning: tuple[Target, ...] = ()

    def sql(self) -> str:
        conflict = "" if self.conflict is None else self.conflict.sql()
        into = f"{self.table} AS {self.alias} ({', '.join(self.columns)})"
        return f"INSERT INTO {into} VALUES {listed(self.rows)}{conflict}{_returned(self.returning)}"


@dataclass(frozen=True)
class Update(Change):
    assignments: tuple[Assignment | Together, ...] = some()
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
    assignments: tuple[Assignment | Together, ...] = ()

    def sql(self) -> str:
        condition = "" if self.condition is None else f" AND {self.condition.sql()}"
        return f"WHEN {self.matched}{condition} THEN {self._action()}"

    def _action(self) -> str:
        if self.word == "UPDATE":
            return f"UPDATE SET {listed(self.assignments)}"
        if self.word == "INSERT":
            given = [each for each in self.assignments if isinstance(each, Assignment)]
            columns = ", ".join(each.column for each in given)
            return f"INSERT ({columns}) VALUES ({', '.join(each.value.sql() for each in given)})"
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


@dataclass(frozen=True)
class Chained(Change):
    """A change in WITH whose rows another takes."""

    first: Change
    second: Change

    def tables(self) -> tuple[str, ...]:
        return (*self.first.tables(), *self.second.tables())

    def sql(self) -> str:
        return f"WITH changed AS ({self.first.sql()}) {self.second.sql()}"


@dataclass(frozen=True)
class Altered(Change):
    """ALTER TABLE, by its words."""

    words: str

    def sql(self) -> str:
        return f"ALTER TABLE {self.table} {self.words}"


@dataclass(frozen=True)
class Block(Change):
    """Changes one after the other, each behind a savepoint; some are undone."""

    steps: tuple[Step, ...] = some()

    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table for step in self.steps for table in step.change.tables()))

    def statements(self) -> tuple[str, ...]:
        return tuple(text for step in self.steps for text in step.statements())

    def sql(self) -> str:
        return ";\n".join(self.statements())


@dataclass(frozen=True)
class Step(Node):
    change: Change
    undone: bool = switch()

    def statements(self) -> tuple[str, ...]:
        end = "ROLLBACK TO here" if self.undone else "RELEASE here"
        return ("SAVEPOINT here", self.change.sql(), end)

    def sql(self) -> str:
        return ";\n".join(self.statements())
