"""Random changes. Each row that is changed is matched once at most, and ids stay unique."""

from __future__ import annotations

from tests.answers.changes import Action, Assignment, Change, Conflict, Delete, Insert, Merge, Update
from tests.answers.expressions import Apply, Expression, Ref
from tests.answers.generate import Queries
from tests.answers.queries import Select, Source, TableItem, Target
from tests.answers.scope import Scope
from tests.answers.tables import KEYED, Column


class Changes(Queries):
    """`change` gives one; ids of new rows are beyond `number` times 1000."""

    def change(self, number: int) -> Change:
        self.aliases = 0
        self.spicy = self.likely(0.1)
        self.left = self.chance.choice((1, 2, 3, 4))
        table = self.chance.choice(sorted(self.base))
        makers = (self._insert, self._update, self._update, self._delete, self._merge, self._upsert)
        return self.chance.choice(makers)(table, 1000 * (number + 1))

    def _columns(self, table: str) -> list[Column]:
        found = next(each for each in self.world.tables if each.name == table)
        return [column for column in found.columns if column.name != "id"]

    def _assigned(self, scope: Scope, column: Column, depth: int) -> Expression:
        """A value that fits the column."""
        value = self.value(scope, column.kind, depth)
        if column.declared.startswith(("varchar", "char")):
            return Apply(column.kind, "({0})::" + column.declared, (value,))
        if column.declared.startswith("numeric("):
            return Apply(column.kind, "(({0}) % 10000)::" + column.declared, (value,))
        return value

    def _assignments(self, scope: Scope, table: str, depth: int = 2) -> tuple[Assignment, ...]:
        columns = self.chance.sample(self._columns(table), self.chance.choice((1, 1, 2, 3)))
        return tuple(Assignment(each.name, self._assigned(scope, each, depth)) for each in columns)

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

    def _matched_once(self, own: Scope) -> tuple[Source, Scope, Expression]:
        """Another table of which one row at most matches each of the target's."""
        item = self._base_item()
        mine = self.chance.choice([each for each in own.leaves if each.kind == "int4"])
        on = Apply("bool", "({0} = {1})", (mine, Ref("int4", item.alias, "id")))
        return item, self.scope(item, None), on

    # --- the statements ---

    def _insert(self, table: str, beyond: int) -> Change:
        alias = self.alias()
        item = self._base_item()
        scope = self.scope(item, None)
        number = Apply("int4", "({0} + " + str(beyond) + ")", (Ref("int4", item.alias, "id"),))
        return Insert(
            table, alias, self._given(table, scope, item, number), None, self._returning(table, self._own(table, alias))
        )

    def _given(self, table: str, scope: Scope, item: Source, number: Expression) -> Select:
        columns = [each for each in self._columns(table) if self.likely(0.6)]
        targets = (Target(number, "id"), *(Target(self._assigned(scope, each, 2), each.name) for each in columns))
        return Select(targets, item, (self.boolean(scope, 2),) if self.likely(0.7) else ())

    def _upsert(self, table: str, beyond: int) -> Change:
        table = self.chance.choice(KEYED)
        alias, item = self.alias(), self._base_item()
        scope = self.scope(item, None)
        query = self._given(table, scope, item, Ref("int4", item.alias, "id"))
        own = self._own(table, alias)
        given = {each.name for each in query.targets}
        both = Scope(
            [*own.leaves, *(Ref(kind, "excluded", name) for name, kind in self.columns[table] if name in given)]
        )
        conflict = Conflict(
            self._assignments(both, table, 1) if self.likely(0.8) else (),
            (self.boolean(both, 1),) if self.likely(0.4) else (),
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
        alias, item = self.alias(), self._base_item()
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
            new = (Assignment("id", number), *self._assignments(other, table, 1))
            actions.append(Action("NOT MATCHED", "INSERT", self.boolean(other, 1) if self.likely(0.4) else None, new))
        if self.likely(0.3):
            condition_ = self.boolean(own, 1) if self.likely(0.6) else None
            actions.append(Action("NOT MATCHED BY SOURCE", "UPDATE", condition_, self._assignments(own, table, 1)))
        returning = self._returning(table, both, old=False)
        if returning:
            returning = (*returning, Target(Apply("text", "merge_action()", ()), "action"))
        assert isinstance(item, TableItem)
        return Merge(table, alias, item, on, tuple(actions), returning)


def all_of(table: str) -> str:
    """What shows a table's rows."""
    return f"SELECT * FROM {table} ORDER BY id"
