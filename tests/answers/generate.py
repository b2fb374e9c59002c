"""Random queries: the levels, FROM, grouping, windows and set operations. One `random.Random` decides everything."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tests.answers.expressions import Aggregate, Apply, Expression, Frame, Ordered, Ref, Window
from tests.answers.generate_commons import Commons
from tests.answers.generate_expressions import DISTANCES
from tests.answers.queries import (
    Called,
    Cut,
    Derived,
    DistinctOn,
    Grouping,
    Join,
    Order,
    Query,
    Row,
    Rows,
    Select,
    SetOperation,
    Source,
    TableItem,
    Target,
)
from tests.answers.scope import Scope, row_keys
from tests.answers.tables import World
from tests.answers.tree import walk
from tests.answers.types import WIDER

_QUERIES_MAX: Final = 7
_FORMS: Final = (
    "", "", "", "", "ROLLUP", "ROLLUP", "CUBE", "CUBE", "GROUPING SETS", "GROUPING SETS", "MIXED", "CROSSED", "NESTED",
    "DISTINCT",
)  # fmt: skip


class Queries(Commons):
    """Queries over the tables of a world."""

    def __init__(self, chance: random.Random, world: World) -> None:
        super().__init__(chance)
        self.world = world
        self.columns = {table.name: [(column.name, column.kind) for column in table.columns] for table in world.tables}
        self.base = frozenset(self.columns)
        self.columns |= {view.name: list(view.columns) for view in world.views}
        self.views = tuple(view.name for view in world.views)
        self.common = []
        self.nested = 0

    # --- whole statements ---

    def statement(self) -> Query:
        """A query, most often with a subquery that names an outer column."""
        self.aliases = self.nested = 0
        self.spicy = self.likely(0.25)
        self.left = self.chance.choice((1, 2, 2, 3, 3, 4, _QUERIES_MAX))
        pick = self.chance.random()
        if pick < 0.12:
            return self.with_()
        if pick < 0.20:
            return self.set_operation(self.kinds(), None, ordered=self.likely(0.5))
        if pick < 0.24:
            return self._counted()
        return self.select(None, self.kinds(), top=True)

    def _counted(self) -> Query:
        """Windows without a total order: certain, since rows that tie show the same."""
        source, scope = self.source(None)
        first, second = (self.column(scope, self.ordered_kind(scope)) for _ in range(2))
        keys: tuple[Expression, ...] = (second, first)
        frame = self.frame(self.chance.choice(("ROWS", "GROUPS")) if self.spicy else "ROWS", (), ())
        if self.spicy and second.kind in DISTANCES and self.likely(0.7):
            near, far = DISTANCES[second.kind]
            keys = (second,)
            frame = Frame("RANGE", f"{far} PRECEDING", f"{near} {self.chance.choice(('PRECEDING', 'FOLLOWING'))}")
        count = Window("int8", Aggregate("int8", "count({0})", (second,)), (first,), (), keys, frame)
        rank = self.chance.choice(("rank()", "dense_rank()", "percent_rank()", "cume_dist()"))
        ranked = Window("float8", Apply("float8", rank, ()), (first,), (), keys)
        return Select(self.targets([first, second, count, ranked]), source)

    # --- set operations ---

    def set_operation(self, kinds: Sequence[str], outer: Scope | None, *, ordered: bool) -> SetOperation:
        if not self.spicy and outer is None:  # of equal numbers any is shown
            kinds = ["int8" if kind == "numeric" else kind for kind in kinds]
        others = [self.chance.choice(WIDER[kind]) if self.likely(0.1) and kind in WIDER else kind for kind in kinds]
        word = self.chance.choice(("UNION", "UNION", "INTERSECT", "EXCEPT"))
        left: Query = self.select(outer, kinds, cut=0.1)
        right: Query = self.select(outer, others, cut=0.1) if self.likely(0.9) else self.rows(others)
        if word != "UNION" and isinstance(left, Select) and self.likely(0.5):  # else they seldom have a row in common
            right = replace(left, where=left.where[1:], order=None)
        if self.left > 0 and self.likely(0.2):
            other = self.chance.choice(("UNION", "INTERSECT", "EXCEPT"))
            left = SetOperation(other, left, self.select(outer, kinds), self.likely(0.5))
        order = Order(by_all=True, cut=self.cut(0.5)) if ordered else None
        return SetOperation(word, left, right, self.likely(0.5), order)

    def cut(self, share: float) -> Cut | None:
        if not self.likely(share):
            return None
        pick = self.chance.random()
        if pick < 0.6:
            return Cut(self.chance.randint(1, 4))
        return Cut(None if pick > 0.9 else self.chance.randint(0, 5), self.chance.randint(0, 3))

    # --- FROM ---

    def alias(self) -> str:
        self.aliases += 1
        return f"a{self.aliases}"

    def _item(self, before: Scope | None, tables: Sequence[str]) -> Source:
        """`before`: what a LATERAL subquery may name."""
        pick = self.chance.random()
        if tables and pick < 0.6:
            return TableItem(self.chance.choice(tables), self.alias())
        if self.common and pick < 0.2:
            return TableItem(self.chance.choice(self.common), self.alias())
        if pick < 0.72 or self.left < 1:
            return self.base_item()
        if before is not None and self.likely(0.3 if self.spicy else 0.12):
            return self.called(before)
        if before is not None and before.leaves and self.likely(0.7):
            return Derived(self.lateral(before), self.alias(), lateral=True)
        outer = None if before is None else before.outer
        if self.likely(0.2):
            return Derived(self.rows(self.simple_kinds()), self.alias())
        if self.likely(0.2):
            return Derived(self.set_operation(self.simple_kinds(), None, ordered=self.likely(0.3)), self.alias())
        if self.likely(0.1):
            return Derived(self.nested_with(outer, self.simple_kinds()), self.alias())
        around = None if outer is None or self.likely(0.6) else outer
        return Derived(self.select(around, self.simple_kinds(), cut=0.1), self.alias())

    def lateral(self, before: Scope) -> Query:
        """A subquery that names what stands before it."""
        kinds = self.simple_kinds()
        pick = self.chance.random()
        if pick < 0.15:
            return self.set_operation(kinds, before, ordered=True)
        if pick < 0.22:
            return self.nested_with(before, kinds, cut=0.5)
        if pick < 0.28:
            return self.rows(kinds, before)
        if pick < 0.34:
            return Select(self.targets([self.value(Scope([], before), kind, 1) for kind in kinds]))
        if pick < 0.48:
            return self._whole(before, kinds)
        return self.select(before, kinds, correlated=pick < 0.95, cut=0.6)

    def _whole(self, before: Scope, kinds: Sequence[str]) -> Select:
        """One group, with a row for each row before it."""
        self.left -= 1
        source, scope = self.source(before)
        where = (self.correlation(scope, before), *((self.boolean(scope, 1),) if self.likely(0.2) else ()))
        grouped = Scope([], before, rows=scope)
        values = [self.value(grouped, kind, 1) for kind in (*kinds, "int8")]
        having = (self.boolean(grouped, 1),) if self.likely(0.1) else ()
        return Select(self.targets(values), source, where, Grouping(), having)

    def rows(self, kinds: Sequence[str], outer: Scope | None = None) -> Rows:
        """VALUES."""
        empty = Scope([], outer)
        return Rows(tuple(
            Row(tuple(self.value(empty, kind, 1) if outer else self.literal(kind) for kind in kinds))
            for _ in range(self.chance.randint(1, 4))
        ))  # fmt: skip

    def scope(self, source: Source, outer: Scope | None) -> Scope:
        """What a FROM lets be named."""
        leaves: list[Expression] = []
        keyed = self.base | set(self.views)
        keys = row_keys(source, keyed)
        for item in self._flat(source):
            if isinstance(item, TableItem):
                leaves += [Ref(kind, item.alias, name) for name, kind in self.columns[item.table]]
                if item.table not in keyed:
                    keys += tuple(Ref(kind, item.alias, name) for name, kind in self.columns[item.table])
            elif isinstance(item, Derived):
                leaves += [Ref(kind, item.alias, name) for name, kind in self.outputs(item.query)]
            elif isinstance(item, Called):
                leaves += [Ref(kind, item.alias, name) for name, kind in item.columns]
        return Scope(leaves, outer, keys=keys)

    def _flat(self, source: Source) -> list[Source]:
        return [*self._flat(source.left), *self._flat(source.right)] if isinstance(source, Join) else [source]

    def source(self, outer: Scope | None, tables: Sequence[str] = ()) -> tuple[Source, Scope]:
        """FROM, with joins."""
        source = self._item(None if outer is None else Scope([], outer), tables)
        count = self.chance.choice((1, 1, 1, 2, 2, 3))
        for _ in range(count - 1):
            scope = self.scope(source, outer)
            right = self._nested(scope) if self.likely(0.06) else self._item(scope, ())
            source = self._joined(source, right, scope)
        found = self.scope(source, outer)
        if isinstance(source, Join) and source.using and count == 2:
            found.leaves += [Ref("int4", "", name) for name in source.using]
        return source, found

    def _nested(self, before: Scope) -> Source:
        """A join, to be joined as a whole."""
        first = self._item(before, ())
        inner = self.scope(first, before.outer)
        second = self._item(Scope([*before.leaves, *inner.leaves], before.outer), ())
        return self._joined(first, second, inner)

    def _joined(self, left: Source, right: Source, scope: Scope) -> Source:
        kinds = ["INNER", "INNER", "LEFT", "LEFT", "CROSS"]
        bases = isinstance(left, TableItem) and isinstance(right, TableItem)
        free = not any(
            isinstance(each, Called) or (isinstance(each, Derived) and each.lateral) for each in self._flat(right)
        )
        if free:
            kinds += ["RIGHT", "FULL"]
        kind = self.chance.choice(kinds)
        if kind == "CROSS":
            return Join(left, kind, right)
        if bases and self.likely(0.25) and {left.table, right.table} <= self.base | set(self.views):  # type: ignore[attr-defined]
            return Join(left, kind, right, using=self.chance.choice((("k",), ("id",), ("id", "k"))))
        inner = self.scope(right, scope.outer)
        if not free and self.likely(0.4):
            return Join(left, kind, right)
        if kind != "FULL" and self.likely(0.05 if free else 0.4):
            return Join(left, kind, right, (self.boolean(inner, 1),))
        on = [self.equality(scope, inner)]
        if self.left < 1 and kind in {"INNER", "LEFT"} and self.likely(0.1):  # by no equality
            on = [Apply("bool", "({0} < {1})", (self.column(scope, "int4"), self.column(inner, "int4")))]
        if kind != "FULL" and self.likely(0.25):
            both = Scope([*scope.leaves, *inner.leaves], scope.outer)
            on.append(self.boolean(both, 2))
        return Join(left, kind, right, tuple(on))

    # --- SELECT ---

    def select(
        self,
        outer: Scope | None,
        kinds: Sequence[str],
        *,
        correlated: bool = False,
        cut: float = 0.0,
        top: bool = False,
        tables: Sequence[str] = (),
    ) -> Select:
        """A SELECT of these kinds. `cut`: the share that has LIMIT."""
        self.left -= 1
        source, scope = self.source(outer, tables)
        where: list[Expression] = []
        if outer is not None and (correlated or self.likely(0.6)):
            where.append(self.correlation(scope, outer))
        if self.likely(0.5):
            where.append(self.boolean(scope, 2))
        pick = self.chance.random()
        if pick < (0.25 if top else 0.15):
            return self._grouped(source, scope, tuple(where), kinds, cut, more=top)
        if pick < 0.31 and not correlated:
            return self._distinct_on(source, scope, tuple(where), kinds)
        windows = self.likely(0.22 if top else 0.1)
        values = [
            self.window(scope, kind) if windows and self.likely(0.6) else self.value(scope, kind, 3) for kind in kinds
        ]
        if windows and top and self.likely(0.5):
            values.append(self.window(scope, "int8"))
        select = Select(self.targets(values), source, tuple(where))
        distinct = self.likely(0.1)
        if distinct:
            select = replace(select, distinct=True)
        if self.likely(max(cut, 0.4 if top else 0.1)):
            select = replace(select, order=self.order(scope, distinct, cut or 0.5))
        return select

    def targets(self, values: Sequence[Expression]) -> tuple[Target, ...]:
        return tuple(Target(value, f"c{number}") for number, value in enumerate(values, 1))

    def ordered(self, scope: Scope, subqueries: bool = True) -> Ordered:
        kind = self.ordered_kind(scope)
        value = self.value(scope, kind, 1 if subqueries else 0)
        if not any(isinstance(each, Ref) for each in walk(value)):  # a number would be a column's
            value = Apply(kind, "coalesce({0}, {1})", (value, value))
        return Ordered(value, self.likely(0.4), self.chance.choice(("", "", "FIRST", "LAST")))

    def order(self, scope: Scope, distinct: bool, cut: float) -> Order:
        items = () if distinct else tuple(self.ordered(scope) for _ in range(self.chance.choice((0, 1, 1, 2))))
        if items and self.likely(0.08):
            return Order(items, cut=Cut(self.chance.randint(1, 3), ties=True))
        if not distinct and scope.keys and all(each.kind != "any" for each in scope.keys) and self.likely(0.6):
            return Order(items, scope.keys, cut=self.cut(cut))
        return Order(items, by_all=True, cut=self.cut(cut))

    def _distinct_on(self, source: Source, scope: Scope, where: tuple[Expression, ...], kinds: Sequence[str]) -> Select:
        values = tuple(self.column(scope, self.ordered_kind(scope)) for _ in range(self.chance.choice((1, 1, 2))))
        refs = tuple(each for each in values if isinstance(each, Ref))
        targets = self.targets([self.value(scope, kind, 2) for kind in kinds])
        if not refs or not scope.keys:
            return Select(targets, source, where)
        order = tuple(self.ordered(scope, False) for _ in range(self.chance.choice((0, 1))))
        return Select(targets, source, where, distinct_on=DistinctOn(refs, order, scope.keys))

    def _grouped(
        self,
        source: Source,
        scope: Scope,
        where: tuple[Expression, ...],
        kinds: Sequence[str],
        cut: float,
        *,
        more: bool,
    ) -> Select:
        keys: list[Expression] = []
        for _ in range(self.chance.choice((0, 1, 1, 2, 2, 3))):
            kind = self.ordered_kind(scope)
            local = self.likely(0.8)
            key = self.column(scope, kind) if self.likely(0.7) else self.value(scope, kind, 1, local=local)
            if any(isinstance(each, Ref) for each in walk(key)) and key.sql() not in {each.sql() for each in keys}:
                keys.append(key)
        if len(keys) < 2 and self.likely(0.15):
            keys += self._twins(scope)
        sets = bool(keys) and (self.spicy or all(key.kind != "numeric" for key in keys))
        form = self.chance.choice(_FORMS) if sets else ""
        grouped = Scope(list(keys), scope.outer, rows=scope)
        values = [self.value(grouped, kind, 2) for kind in kinds]
        if more and form and self.likely(0.5):
            values.append(Apply("int4", "grouping({0})", (self.chance.choice(keys),)))
            if len(keys) > 1 and self.likely(0.4):
                values[-1] = Apply("int4", "grouping({0}, {1})", (keys[1], keys[0]))
        if more and not form and self.likely(0.25):
            values.append(self.window_over_groups(grouped, keys))
        having = (self.boolean(grouped, 2),) if self.likely(0.3) else ()
        grouping = Grouping(tuple(keys), form, self.likely(0.6))
        select = Select(self.targets(values), source, where, grouping, having, distinct=self.likely(0.1))
        if self.likely(max(cut, 0.3)):
            select = replace(select, order=Order(by_all=True, cut=self.cut(cut or 0.4)))
        return select

    def _twins(self, scope: Scope) -> tuple[Expression, ...]:
        """Two keys that mean the same."""
        sides = self.column(scope, "int4"), self.column(scope, "int4")
        if not all(isinstance(each, Ref) for each in sides) or sides[0] == sides[1]:
            return ()
        return tuple(Apply("int4", text, sides) for text in ("({0} % 99 + {1} % 99)", "({1} % 99 + {0} % 99)"))

    # --- subqueries of expressions ---

    def can_nest(self, depth: int) -> bool:
        return depth > 0 and self.left > 0

    def one_row(self, outer: Scope, kind: str) -> Query:
        """A query that gives a row at most."""
        self.left -= 1
        if self.likely(0.5):
            source, scope = self.source(outer)
            where = (self.correlation(scope, outer),) if self.likely(0.85) else (self.boolean(scope, 1),)
            grouped = Scope([], outer, rows=scope)
            found = None if self.likely(0.15) else self.aggregate(scope, kind)
            value = self.value(grouped, kind, 1) if found is None else found
            having = (self.boolean(grouped, 1),) if self.likely(0.1) else ()
            return Select(self.targets([value]), source, where, Grouping(), having)
        if self.likely(0.1):
            return replace(self.set_operation((kind,), outer, ordered=True), order=Order(by_all=True, cut=Cut(1)))
        source, scope = self.source(outer)
        condition = (self.correlation(scope, outer),) if self.likely(0.85) else ()
        distinct = self.likely(0.12)
        order = replace(self.order(scope, distinct, 1.0), cut=Cut(1, self.chance.choice((None, None, None, 1, 2))))
        if not order.is_total:
            order = replace(order, by_all=True)
        value = self.value(scope, kind, 1)
        return Select(self.targets([value]), source, condition, distinct=distinct, order=order)

    def all_rows(self, outer: Scope, kind: str) -> Query:
        """A query that gives a row for each of its source."""
        self.left -= 1
        source, scope = self.source(outer)
        return Select(self.targets([self.column(scope, kind)]), source)

    def many_rows(self, outer: Scope, kinds: Sequence[str]) -> Query:
        """A query for IN, EXISTS, ANY and ARRAY."""
        if self.likely(0.08):
            return self.rows(kinds, outer)
        if self.likely(0.1):
            return self.set_operation(kinds, outer, ordered=self.likely(0.3))
        if self.left > 0 and self.likely(0.05):
            return self.nested_with(outer, kinds, cut=0.25)
        return self.select(outer, kinds, correlated=self.likely(0.7), cut=0.25)

    def sorted_rows(self, outer: Scope, kind: str) -> Query:
        """For ARRAY: in an order."""
        query = self.select(outer, (kind,), correlated=self.likely(0.8))
        if query.distinct_on is not None:
            return query
        return replace(query, order=Order(by_all=True, cut=self.cut(0.4)))
