"""Random changes. Each changed row is matched at most once, and ids stay unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.answers.changes import (
    Action,
    Altered,
    Assignment,
    Block,
    Chained,
    Change,
    Conflict,
    Delete,
    Given,
    Insert,
    Merge,
    Renamed,
    Step,
    Together,
    Update,
)
from tests.answers.expressions import Apply, Expression, Literal, Ref
from tests.answers.generate import Queries
from tests.answers.queries import Derived, Grouping, Join, Query, Row, Select, Source, TableItem, Target
from tests.answers.scope import Scope
from tests.answers.tables import KEYED, Column, World


class Changes(Queries):
    """`change` gives one; ids of new rows are beyond `number` times 1000."""

    def change(self, number: int) -> Change:
        self.aliases = self.nested = 0
        self.spicy = self.likely(0.1)
        beyond = 1000 * (number + 1)
        pick = self.chance.random()
        if pick < 0.06:
            return self._chained(beyond)
        if pick < 0.16:
            steps = tuple(self._step(beyond + 200 * place, number) for place in range(self.chance.choice((2, 3))))
            return Block(steps[0].change.table, "", steps)
        return self._single(beyond)

    def _single(self, beyond: int) -> Change:
        self.left = self.chance.choice((1, 2, 3, 4))
        table = self.chance.choice(sorted(self.base))
        if self.likely(0.08):
            table = next((view.name for view in self.world.views if view.base), table)
        makers = (
            self._insert, self._update, self._update, self._delete, self._merge, self._upsert, self._values,
        )  # fmt: skip
        return self.chance.choice(makers)(table, beyond)

    def _step(self, beyond: int, number: int) -> Step:
        if self.likely(0.25):
            return Step(self._altered(number), self.likely(0.5))
        return Step(self._single(beyond), self.likely(0.4))

    def _altered(self, number: int) -> Altered:
        """A column that no other statement names comes, or one gets a wider type."""
        table = self.chance.choice(sorted(self.base))
        name = f"added{number}"
        words = (
            f"ADD COLUMN {name} int4 DEFAULT 5",
            f"ADD COLUMN IF NOT EXISTS {name} numeric(8,2)",
            f"ADD COLUMN {name} text, ALTER COLUMN k SET DEFAULT 3",
            "ALTER COLUMN k SET DEFAULT 4",
        )
        return Altered(table, "", self.chance.choice(words))

    def _chained(self, beyond: int) -> Change:
        """Rows that one statement returns are inserted into another table."""
        self.left = 2
        table, other = self.chance.sample(sorted(self.base), 2)
        maker = self.chance.choice((self._delete, self._update))
        first = maker(table, beyond)
        assert isinstance(first, Delete | Update)
        own = Ref("int4", first.alias, "id"), Ref("int4", first.alias, "k")
        first = replace(first, returning=(Target(own[0], "id"), Target(own[1], "k")))
        item = TableItem("changed", self.alias())
        number = Apply("int4", "({0} + " + str(beyond) + ")", (Ref("int4", item.alias, "id"),))
        given = Select((Target(number, "id"), Target(Ref("int4", item.alias, "k"), "k")), item)
        second = Insert(other, self.alias(), given)
        second = replace(second, returning=self._returning(other, self._own(other, second.alias)))
        return Chained(other, second.alias, first, second)

    def _columns(self, table: str) -> list[Column]:
        view = next((each for each in self.world.views if each.name == table), None)
        base = table if view is None else view.base
        found = next(each for each in self.world.tables if each.name == base)
        shown = {name for name, _ in self.columns[table]} - {"id"}
        return [column for column in found.columns if column.name in shown and not column.generated]

    def _assigned(self, scope: Scope, column: Column, depth: int) -> Expression:
        """A value that fits the column."""
        value = self.value(scope, column.kind, depth)
        if column.declared.startswith(("varchar", "char")):
            return Apply(column.kind, "({0})::" + column.declared, (value,))
        if column.declared.startswith("numeric("):
            return Apply(column.kind, "(({0}) % 10000)::" + column.declared, (value,))
        return value

    def _assignments(self, scope: Scope, table: str, depth: int = 2) -> tuple[Assignment | Together, ...]:
        columns = self.chance.sample(self._columns(table), self.chance.choice((1, 1, 2, 3)))
        single = tuple(Assignment(each.name, self._assigned(scope, each, depth)) for each in columns)
        if len(single) < 2 or self.likely(0.7):
            return single
        names = tuple(each.column for each in single)
        if self.likely(0.4) or self.left < 1:
            return (Together(names, tuple(each.value for each in single)),)
        return (Together(names, (), self._one_row_for(scope, columns)),)

    def _one_row_for(self, scope: Scope, columns: list[Column]) -> Query:
        """A subquery of a row at most, with a value for each column."""
        self.left -= 1
        item = self.base_item()
        inner = self.scope(item, scope)
        mine = self.chance.choice([each for each in scope.leaves if each.kind == "int4"] or [Literal("int4", "1")])
        on = Apply("bool", "({0} = {1})", (Ref("int4", item.alias, "id"), mine))
        values = [self._assigned(inner, each, 1) for each in columns]
        return Select(self.targets(values), item, (on,))

    def _own(self, table: str, alias: str) -> Scope:
        return Scope([Ref(kind, alias, name) for name, kind in self.columns[table]])

    def _returning(self, table: str, scope: Scope, old: bool = True) -> tuple[Target, ...]:
        if self.likely(0.2):
            return ()
        values = [self.value(scope, self.ordered_kind(scope), 2) for _ in range(self.chance.choice((1, 2, 3)))]
        if old and self.likely(0.3):
            name, kind = self.chance.choice(self.columns[table])
            values += [Ref(kind, "old", name), Ref(kind, "new", name)]
            return self.targets(values)
        targets = self.targets(values)
        if old and self.likely(0.15):
            return (Renamed(targets[0].value, targets[0].name), *targets[1:])
        return targets

    def _matched_once(self, own: Scope) -> tuple[Source, Scope, Expression]:
        """Another table of which one row at most matches each of the target's."""
        mine = self.chance.choice([each for each in own.leaves if each.kind == "int4"])
        first = self.base_item()
        item: Source = first
        if self.likely(0.2):  # two tables, joined by their keys
            second = self.base_item()
            on = Apply("bool", "({0} = {1})", (Ref("int4", first.alias, "id"), Ref("int4", second.alias, "id")))
            item = Join(first, self.chance.choice(("INNER", "LEFT")), second, (on,))
        elif self.likely(0.3):
            item = self._by_key(first)
        alias = item.alias if isinstance(item, Derived) else first.alias
        on = Apply("bool", "({0} = {1})", (mine, Ref("int4", alias, "id")))
        return item, self.scope(item, None), on

    def _by_key(self, first: TableItem) -> Derived:
        """A subquery with a row for each key."""
        scope = self.scope(first, None)
        key = Ref("int4", first.alias, "id")
        kinds = self.simple_kinds()
        if self.likely(0.5):
            grouped = Scope([key], None, rows=scope)
            values = [self.value(grouped, kind, 1) for kind in kinds]
            query = Select((Target(key, "id"), *self.targets(values)), first, (), Grouping((key,)))
        else:
            values = [self.value(scope, kind, 2) for kind in kinds]
            query = Select((Target(key, "id"), *self.targets(values)), first, (self.boolean(scope, 1),))
        return Derived(query, self.alias())

    # --- the statements ---

    def _insert(self, table: str, beyond: int) -> Change:
        alias = self.alias()
        item = self.base_item()
        scope = self.scope(item, None)
        number = Apply("int4", "({0} + " + str(beyond) + ")", (Ref("int4", item.alias, "id"),))
        return Insert(
            table, alias, self._given(table, scope, item, number), None, self._returning(table, self._own(table, alias))
        )

    def _values(self, table: str, beyond: int) -> Change:
        alias = self.alias()
        columns = [each for each in self._columns(table) if self.likely(0.5)]
        conflict, numbers = None, [beyond + place for place in range(self.chance.choice((1, 2, 3)))]
        if table in KEYED and self.likely(0.4):
            numbers = self.chance.sample(range(1, 15), len(numbers))
            assigned = self._assignments(self._own(table, alias), table, 1) if self.likely(0.7) else ()
            conflict = Conflict(assigned)
        rows = tuple(Row((Literal("int4", str(number)), *map(self._value, columns))) for number in numbers)
        returning = self._returning(table, self._own(table, alias))
        return Given(table, alias, ("id", *(each.name for each in columns)), rows, conflict, returning)

    def _value(self, column: Column) -> Expression:
        if self.likely(0.15):
            return Literal(column.kind, "DEFAULT")
        return self._assigned(Scope([]), column, 2)

    def _given(self, table: str, scope: Scope, item: Source, number: Expression) -> Select:
        columns = [each for each in self._columns(table) if self.likely(0.6)]
        targets = (Target(number, "id"), *(Target(self._assigned(scope, each, 2), each.name) for each in columns))
        return Select(targets, item, (self.boolean(scope, 2),) if self.likely(0.7) else ())

    def _upsert(self, table: str, beyond: int) -> Change:
        table = self.chance.choice(KEYED)
        alias, item = self.alias(), self.base_item()
        scope = self.scope(item, None)
        query = self._given(table, scope, item, Ref("int4", item.alias, "id"))
        own = self._own(table, alias)
        given = {each.name for each in query.targets}
        both = Scope(
            [*own.leaves, *(Ref(kind, "excluded", name) for name, kind in self.columns[table] if name in given)]
        )
        target = self.chance.choice((" (id)", " (id)", f" ON CONSTRAINT {table}_pkey"))
        if self.likely(0.2):
            conflict = Conflict((), (), self.chance.choice((target, "")))
        else:
            conflict = Conflict(
                self._assignments(both, table, self.chance.choice((1, 1, 2))),
                (self.boolean(both, 1),) if self.likely(0.4) else (),
                target,
            )
        return Insert(table, alias, query, conflict, self._returning(table, own))

    def _update(self, table: str, beyond: int) -> Change:
        alias = self.alias()
        own = self._own(table, alias)
        where: list[Expression] = []
        source, scope = None, own
        if self.likely(0.5):
            source, other, on = self._matched_once(own)
            where.append(on)
            scope = Scope([*own.leaves, *other.leaves])
        if self.likely(0.8):
            where.append(self.boolean(scope, 2))
        return Update(
            table, alias, self._assignments(scope, table), source, tuple(where), self._returning(table, scope)
        )

    def _delete(self, table: str, beyond: int) -> Change:
        alias = self.alias()
        own = self._own(table, alias)
        some = Apply("bool", f"({{0}} % 4 = {self.chance.randint(0, 3)})", (Ref("int4", alias, "id"),))
        where: list[Expression] = [some]
        source, scope = None, own
        if self.likely(0.5):
            source, other, on = self._matched_once(own)
            where.append(on)
            scope = Scope([*own.leaves, *other.leaves])
        if self.likely(0.8):
            where.append(self.boolean(scope, 2))
        return Delete(table, alias, source, tuple(where), self._returning(table, own))

    def _merge(self, table: str, beyond: int) -> Change:
        alias, first = self.alias(), self.base_item()
        item: TableItem | Derived = self._by_key(first) if self.likely(0.3) else first
        own, other = self._own(table, alias), self.scope(item, None)
        on = Apply("bool", "({0} = {1})", (Ref("int4", alias, "id"), Ref("int4", item.alias, "id")))
        both = Scope([*own.leaves, *other.leaves])
        actions = []
        if self.likely(0.6):
            word = self.chance.choice(("DELETE", "DO NOTHING"))
            condition = Apply("bool", "({0} % 5 = 1)", (Ref("int4", alias, "id"),))
            actions.append(Action("MATCHED", word, condition))
        if self.likely(0.9):
            condition_ = self.boolean(both, 2) if self.likely(0.5) else None
            actions.append(Action("MATCHED", "UPDATE", condition_, self._assignments(both, table)))
        if self.likely(0.7) or not actions:
            number = Apply("int4", "({0} + " + str(beyond) + ")", (Ref("int4", item.alias, "id"),))
            singles = [each for each in self._assignments(other, table, 1) if isinstance(each, Assignment)]
            new = (Assignment("id", number), *singles)
            actions.append(Action("NOT MATCHED", "INSERT", self.boolean(other, 1) if self.likely(0.4) else None, new))
        if self.likely(0.3):
            condition_ = self.boolean(own, 1) if self.likely(0.6) else None
            if self.likely(0.3):
                condition_ = Apply("bool", "({0} % 3 = 1)", (Ref("int4", alias, "id"),))
                actions.append(Action("NOT MATCHED BY SOURCE", "DELETE", condition_))
            else:
                actions.append(Action("NOT MATCHED BY SOURCE", "UPDATE", condition_, self._assignments(own, table, 1)))
        returning = self._returning(table, both)
        if returning:
            returning = (*returning, Target(Apply("text", "merge_action()", ()), "action"))
        return Merge(table, alias, item, on, tuple(actions), returning)


def all_of(table: str) -> str:
    """What shows a table's rows."""
    return f"SELECT * FROM {table} ORDER BY id"


def bases(tables: Sequence[str], world: World) -> list[str]:
    """The tables, and those below views among them."""
    below = {view.name: view.base for view in world.views}
    return list(dict.fromkeys(below.get(table, table) for table in tables))
