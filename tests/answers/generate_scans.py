"""Queries that only read columns of a table, or count its rows, most of them with conditions on its columns."""

from __future__ import annotations

import random
from typing import Final

from tests.answers.expressions import Apply, Connected, Expression, Literal, Ref
from tests.answers.queries import Derived, Select, Source, TableItem, Target
from tests.answers.tables import Column, World
from tests.answers.types import KINDS, WIDER

_ORDERS: Final = ("=", "=", "<", "<=", ">", ">=", "<>")
_PATTERNS: Final = ("{0}%", "%{0}", "%{0}%", "{0}", "_{0}", "{0}%%", "%{0}\\\\%")
_LISTS: Final = ("IN", "IN", "NOT IN")


def scan_of(seed: str, number: int, tables: World) -> Select:
    """The query of a number, over one table or a subquery of it."""
    return _Scans(random.Random(f"scan {seed} {number}"), tables).statement()


class _Scans:
    def __init__(self, chance: random.Random, tables: World) -> None:
        self._chance = chance
        self._table = chance.choice(tables.tables)

    def statement(self) -> Select:
        source: Source = TableItem(self._table.name, "a")
        columns = [column for column in self._table.columns if "[]" not in column.kind] or list(self._table.columns)
        if self._chance.random() < 0.25:
            targets = tuple(Target(self._ref(column), column.name) for column in columns)
            source = Derived(Select(targets, source, self._where(columns)), "a")
        if self._chance.random() < 0.15:
            counts = [
                Apply("int8", self._chance.choice(("count(*)", "count(1)")), ())
                for _ in range(self._chance.choice((1, 1, 2)))
            ]
            return Select(
                tuple(Target(each, f"c{n}") for n, each in enumerate(counts, 1)), source, self._where(columns)
            )
        values = [self._ref(self._chance.choice(columns)) for _ in range(self._chance.choice((1, 2, 4)))]
        return Select(tuple(Target(value, f"c{n}") for n, value in enumerate(values, 1)), source, self._where(columns))

    def _ref(self, column: Column) -> Ref:
        return Ref(column.kind, "a", column.name)

    def _where(self, columns: list[Column]) -> tuple[Expression, ...]:
        return tuple(self._condition(columns, 2) for _ in range(self._chance.choice((0, 1, 1, 2, 3))))

    def _condition(self, columns: list[Column], depth: int) -> Expression:
        if depth and self._chance.random() < 0.3:
            parts = tuple(self._condition(columns, depth - 1) for _ in range(self._chance.choice((2, 2, 3, 9))))
            return Connected("bool", self._chance.choice(("AND", "OR", "OR")), parts)
        tested = self._ref(self._chance.choice(columns))
        pick = self._chance.random()
        if tested.kind == "bool" and pick < 0.4:
            return self._chance.choice((tested, Apply("bool", "(NOT {0})", (tested,))))
        if pick < 0.1:
            return Apply("bool", self._chance.choice(("({0} IS NULL)", "({0} IS NOT NULL)")), (tested,))
        if pick < 0.35:
            listed = tuple(self._constant(tested.kind) for _ in range(self._chance.choice((1, 2, 4))))
            places = ", ".join(f"{{{place}}}" for place in range(1, len(listed) + 1))
            return Apply("bool", f"({{0}} {self._chance.choice(_LISTS)} ({places}))", (tested, *listed))
        if pick < 0.42:
            ends = (self._constant(tested.kind), self._constant(tested.kind))
            return Apply("bool", "({0} BETWEEN {1} AND {2})", (tested, *ends))
        if tested.kind == "text" and pick < 0.6:
            pattern = self._chance.choice(_PATTERNS).format(self._chance.choice(KINDS["text"].texts))
            word = self._chance.choice(("LIKE", "LIKE", "NOT LIKE"))
            return Apply("bool", f"({{0}} {word} {{1}})", (tested, Literal("text", f"'{pattern}'")))
        template = self._chance.choice(("({{0}} {0} {{1}})",) * 4 + ("({{1}} {0} {{0}})",))
        return Apply("bool", template.format(self._chance.choice(_ORDERS)), (tested, self._constant(tested.kind)))

    def _constant(self, kind: str) -> Expression:
        """A value of the type, or of one beside which it may stand; seldom NULL."""
        if self._chance.random() < 0.04:
            return Literal(kind, "NULL")
        if kind in WIDER and self._chance.random() < 0.25:
            kind = self._chance.choice(WIDER[kind])
        text = self._chance.choice(KINDS[kind].texts)
        if self._chance.random() < 0.3:
            return Literal(kind, f"'{text}'::{'char(9)' if kind == 'char' else kind}")
        return Literal(kind, KINDS[kind].literal(text))
