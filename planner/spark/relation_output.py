"""A translated query: its Spark form, and its columns as values for the query that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.spark import numerics
from planner.spark.builders import Expression, column
from planner.spark.values import MISSING, Decimal, Value


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a query. A numeric whose display scale varies is a struct of both (`numerics.packed`).

    `held` is the column's `Decimal`, with display 0 standing for the struct's if it `varies`.
    """

    name: str
    type_oid: int
    typmod: int
    held: Decimal | None
    varies: bool
    label: str | None

    def of(self, alias: str) -> Value:
        """Return the column, read from the query under the alias."""
        held = self.held
        if held is not None and self.varies:
            sql, held = numerics.unpacked(column(alias, self.name), held)
            return Value(sql, self.type_oid, self.typmod, held)
        return Value(column(alias, self.name), self.type_oid, self.typmod, held)


@dataclass(frozen=True, slots=True)
class Selected:
    """A query and its columns, junk included at the end, then its `keys` if it depends on outer rows."""

    query: Expression
    outputs: tuple[Output, ...]
    keys: tuple[Output, ...] = ()

    def columns(self, alias: str) -> list[Value]:
        return [output.of(alias) for output in self.outputs]

    def key_columns(self, alias: str) -> list[Expression]:
        return [column(alias, key.name) for key in self.keys]

    def derived(self, alias: str) -> exp.Subquery:
        """Return it as a derived table."""
        return derived(self.query, alias)


def derived(query: Expression, alias: str) -> exp.Subquery:
    """Return the query as a derived table."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))


def output(value: Value, name: str, label: str | None) -> tuple[Output, Expression]:
    """Return a column that a SELECT gives out: its description, and the item of its select list."""
    sql = value.sql
    held = value.decimal
    varies = False
    if held is not None and held.display is not None and not isinstance(held.display, int):
        varies = True
        sql = numerics.packed(value)
        held = replace(held, display=0)
    return Output(name, value.type_oid, value.typmod, held, varies, label), exp.alias_(sql, name, copy=False)


def select(
    expressions: Sequence[Expression],
    source: Expression | None,
    where: Expression | None = None,
    distinct: bool = False,
) -> exp.Select:
    """Return SELECT expressions FROM source WHERE where."""
    result = exp.Select(expressions=list(expressions))
    if source is not None:
        result.set("from_", exp.From(this=source))
    if where is not None:
        result.set("where", exp.Where(this=where))
    if distinct:
        result.set("distinct", exp.Distinct())
    return result


def without_constant(value: Value) -> Value:
    """Return the value, no longer known while planning."""
    return replace(value, constant=MISSING)
