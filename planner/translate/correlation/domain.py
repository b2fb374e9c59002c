"""Domains: the distinct outer values for which a correlated subquery is computed, or columns of its own in their place.

A level that depends on outer rows has keys, by which its rows are grouped, ranked and cut. Its result shows them behind
its own columns. With a `Domain` the keys are the outer values themselves, joined to the level's FROM. Without one
(`planner.translate.correlation.dependent`) they are expressions of the level's rows that the outer rows are compared
with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from catalog.datatypes import TEXT, element_type
from catalog.errors import unsupported
from planner.spark import relation_output
from planner.spark.builders import Expression, and_, binary, cast, column
from planner.spark.relation_output import Output
from planner.spark.values import FLOATS, Value, spark_type
from planner.translate.scope import Scope, Statement
from planner.tree.nodes import Node


@dataclass(frozen=True, slots=True)
class Key:
    """A key: `row` is its expression in the level's rows, `output` its column in the result.

    `type_oid` is the type of the outer value; a float is kept as text, because grouping takes 0 and -0 as one.
    """

    row: Expression
    output: Output
    type_oid: int

    def read(self, sql: Expression) -> Value:
        """Return the outer value, given the column that holds the key."""
        if self.type_oid in FLOATS:
            return Value(cast(sql, spark_type(self.type_oid)), self.type_oid)
        assert isinstance(sql, exp.Column)
        return self.output.of(sql.table)


class Domain:
    """The distinct outer values of a query's computation, as a relation under an alias."""

    def __init__(  # noqa: PLR0917
        self,
        statement: Statement,
        query: exp.Select,
        outer: Sequence[Expression],
        order: Sequence[int],
        places: dict[Any, int],
        keys: Sequence[Key],
    ) -> None:
        self._statement: Final = statement
        self._query: Final = query
        self._order: Final = order
        self._places: Final = places
        self.alias: Final = statement.fresh("d")
        # The keys' expressions in the outer rows.
        self.outer: Final = outer
        self.keys: Final = [
            Key(column(self.alias, key.output.name), key.output, key.type_oid) for key in keys
        ]  # fmt: skip

    @staticmethod
    def of(outer: Scope, nodes: Sequence[Node], values: Sequence[Value]) -> Domain:
        """Return the domain of these outer nodes, whose values in the outer scope's rows are given; more values may
        follow."""
        statement = outer.statement
        places: dict[Any, int] = {}
        keys: list[Key] = []
        expressions: list[Expression] = []
        order: list[int] = []
        known: dict[Expression, int] = {}
        for number, value in enumerate(values):
            place = known.setdefault(value.sql, len(keys))
            order.append(place)
            if number < len(nodes):
                places[_identity(nodes[number])] = place
            if place == len(keys):
                key, expression = _key(statement, value)
                keys.append(key)
                expressions.append(expression)
        assert outer.source is not None, "values of a level without rows"
        query = outer.source.copied([value.sql for value in values], statement.unrepeatable)
        query.set("expressions", expressions)
        query.set("distinct", exp.Distinct())
        return Domain(statement, query, [item.this for item in expressions], order, places, keys)

    def below(self) -> Domain:
        """Return the same domain, for a query one level below."""
        places = {(levels + 1, *rest): place for (levels, *rest), place in self._places.items()}
        return Domain(self._statement, self._query, self.outer, self._order, places, self.keys)

    def relation(self) -> exp.Subquery:
        """Return the outer values, each once."""
        return relation_output.derived(self._query.copy(), self.alias)

    def values(self, alias: str) -> list[Value]:
        """Return the domain's values in order, read from the relation that shows the keys under an alias."""
        return [self.keys[place].read(column(alias, self.keys[place].output.name)) for place in self._order]

    def place(self, node: Node) -> int:
        """Return the key's number of an outer variable or aggregate, as the level above the query's own writes it."""
        found = self._places.get(_identity(node))
        if found is None:
            raise unsupported("this use of an outer row in a correlated subquery")
        return found


@dataclass(frozen=True, slots=True)
class Dependence:
    """How a query depends on outer rows: by their values, or by columns of its own (`columns` gives them as keys)."""

    domain: Domain | None = None
    columns: Callable[[Scope], list[Key]] | None = None


INDEPENDENT: Final = Dependence()


def _key(statement: Statement, value: Value) -> tuple[Key, Expression]:
    element = element_type(value.type_oid)
    if element is not None and element.oid in FLOATS:
        raise unsupported("a correlated subquery by an array of floats")
    held = value
    if value.type_oid in FLOATS:
        held = Value(cast(value.sql, "STRING"), TEXT)
    described, expression = relation_output.output(held, statement.fresh("k"), None)
    return Key(expression.this, described, value.type_oid), expression


def equal_keys(keys: Sequence[Expression], others: Sequence[Expression]) -> Expression | None:
    """Return the condition that all keys are the same, NULLs included; None if there are none."""
    pairs = [binary("<=>", one, other) for one, other in zip(keys, others, strict=True)]
    return and_(*pairs) if pairs else None


def _identity(node: Node) -> tuple[Any, ...]:
    if node.type == "VAR":
        return int(node.varlevelsup), "VAR", node.varno, node.varattno, node.varreturningtype
    return int(node.agglevelsup), node.type, node.replaced(location=0)
