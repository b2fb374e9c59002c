"""The names that an expression may use: this level's columns (or groups), and those of the levels around."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.answers.expressions import Expression, Ref
from tests.answers.queries import Called, Derived, Join, Source, TableItem
from tests.answers.tree import walk


@dataclass
class Scope:
    """`rows`: the level's rows, where it groups, so that aggregates may be asked for. `keys` tell its rows apart."""

    leaves: list[Expression]
    outer: Scope | None = None
    rows: Scope | None = None
    keys: tuple[Expression, ...] = ()
    tables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def below(self) -> list[Expression]:
        """What a subquery may name: of groups only the columns that are keys."""
        own = self.leaves if self.rows is None else [each for each in self.leaves if isinstance(each, Ref)]
        return [*own, *(self.outer.below() if self.outer is not None else ())]

    def pick(self, chance: random.Random, kind: str, outside: float) -> Expression | None:
        """A leaf of the kind; with the given share one of the levels around."""
        if self.outer is not None and chance.random() < outside:
            around = [each for each in self.outer.below() if each.kind == kind]
            if around:
                return chance.choice(around)
        own = [each for each in self.leaves if each.kind == kind]
        return chance.choice(own) if own else None


def row_keys(source: Source, tables: frozenset[str]) -> tuple[Expression, ...]:
    """What tells the rows of a FROM apart: ids of tables; of subqueries all columns, whose rows else are the same."""
    keys: list[Expression] = [
        Ref("int4", item.alias, "id") for item in walk(source) if isinstance(item, TableItem) and item.table in tables
    ]
    keys += [key for item in _items(source) for key in _all_columns(item)]
    mine = {item.alias for item in _items(source) if isinstance(item, TableItem | Derived | Called)}
    return tuple(key for key in keys if isinstance(key, Ref) and key.alias in mine)


def _items(source: Source) -> list[Source]:
    if isinstance(source, Join):
        return [*_items(source.left), *_items(source.right)]
    return [source]


def _all_columns(item: Source) -> list[Expression]:
    if isinstance(item, Derived):
        return [Ref("any", item.alias, name) for name in item.query.names()]
    if isinstance(item, Called):
        return [Ref("int8", item.alias, item.columns[-1][0])]
    return []
