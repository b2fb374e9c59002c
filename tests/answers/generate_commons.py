"""Random WITH: of a whole statement and of subqueries, recursive, with SEARCH and CYCLE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.answers.expressions import Apply, Literal, Ref
from tests.answers.generate_called import Calls
from tests.answers.queries import (
    Common,
    Join,
    Order,
    Query,
    Rows,
    Select,
    SetOperation,
    TableItem,
    Target,
    With,
)
from tests.answers.scope import Scope

_CLAUSES = (
    ' SEARCH DEPTH FIRST BY c2 SET "way"',
    ' SEARCH BREADTH FIRST BY c2, c1 SET "way"',
    ' CYCLE c2 SET "seen" USING "way"',
    " CYCLE c2 SET \"seen\" TO 'yes' DEFAULT 'no' USING \"way\"",
)


class Commons(Calls):
    """WITH. Levels come from the class that inherits."""

    columns: dict[str, list[tuple[str, str]]]
    base: frozenset[str]
    views: tuple[str, ...]
    common: list[str]  # of WITH, while its body is made
    nested: int  # how many WITH of subqueries there are

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
        raise NotImplementedError

    def scope(self, source: TableItem, outer: Scope | None) -> Scope:
        raise NotImplementedError

    def kinds(self) -> tuple[str, ...]:
        return tuple(self.any_kind() for _ in range(self.chance.choice((1, 2, 2, 3))))

    def simple_kinds(self) -> tuple[str, ...]:
        return ("int4", *(self.chance.choice(("int4", "text", "numeric", "date")) for _ in range(2)))

    def base_item(self) -> TableItem:
        if self.views and self.likely(0.12):
            return TableItem(self.chance.choice(self.views), self.alias())
        return TableItem(self.chance.choice(sorted(self.base)), self.alias())

    def with_(self) -> Query:
        """Of a statement."""
        recursive = self.likely(0.35)
        commons = []
        for number in range(1, self.chance.choice((2, 3, 3))):
            name = f"w{number}"
            query: Query
            clause = ""
            if recursive and number == 1:
                query, clause = self._recursive(name)
            else:
                query = self.select(None, self.simple_kinds(), cut=0.2, tables=self.common if self.likely(0.5) else ())
            word = self.chance.choice(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
            commons.append(Common(name, query, "" if recursive else word, clause))
            self.columns[name] = self.outputs(query)
            if clause and "seen" in clause:
                self.columns[name] = [*self.columns[name], ('"seen"', "text" if "TO 'yes'" in clause else "bool")]
            self.common.append(name)
        body = self.select(None, self.kinds(), top=True, tables=self.common)
        for common in commons:
            del self.columns[common.name]
        self.common = []
        return With(tuple(commons), body, recursive)

    def nested_with(self, outer: Scope | None, kinds: Sequence[str], cut: float = 0.0) -> Query:
        """Of a subquery; its queries may name what is outside too."""
        self.nested += 1
        name = f"v{self.nested}"
        query = self.select(outer, self.simple_kinds(), correlated=outer is not None and self.likely(0.6))
        self.columns[name] = self.outputs(query)
        body = self.select(outer, kinds, correlated=outer is not None and self.likely(0.5), cut=cut, tables=(name,))
        del self.columns[name]
        return With((Common(name, query, self.chance.choice(("", "", "MATERIALIZED "))),), body)

    def _recursive(self, name: str) -> tuple[Query, str]:
        """Numbers that grow, with a join to a table in each step."""
        first = self.base_item()
        scope = self.scope(first, None)
        start = Select(
            (Target(Literal("int4", "1"), "c1"), Target(self.column(scope, "int4"), "c2"),
             Target(Apply("text", "{0}::text", (self.column(scope, "text"),)), "c3")),
            first, (self.boolean(scope, 1),),
        )  # fmt: skip
        own, joined = TableItem(name, self.alias()), self.base_item()
        count, value = Ref("int4", own.alias, "c1"), Ref("int4", own.alias, "c2")
        key = Ref("int4", joined.alias, "k")
        on = (Apply("bool", "({0} = {1})", (key, value)), Apply("bool", "({0} < 3)", (count,)))
        step = Select(
            (Target(Apply("int4", "({0} + 1)", (count,)), "c1"), Target(Ref("int4", joined.alias, "id"), "c2"),
             Target(Apply("text", "({0} || '+')", (Ref("text", own.alias, "c3"),)), "c3")),
            Join(own, "INNER", joined, on),
        )  # fmt: skip
        clause = self.chance.choice(_CLAUSES) if self.spicy and self.likely(0.6) else ""
        if clause or self.likely(0.8):
            return SetOperation("UNION", start, step, every=bool(clause) or not self.spicy), clause
        return self._counting(name), ""

    def _counting(self, name: str) -> Query:
        """A table of numbers alone, whose step has an aggregate-free filter and no join."""
        own = TableItem(name, self.alias())
        count, total = Ref("int4", own.alias, "c1"), Ref("int8", own.alias, "c2")
        start = Select((Target(Literal("int4", "1"), "c1"), Target(Literal("int8", "1::int8"), "c2")))
        step = Select(
            (Target(Apply("int4", "({0} + 1)", (count,)), "c1"),
             Target(Apply("int8", "({0} * {1})", (total, count)), "c2")),
            own, (Apply("bool", "({0} < 6)", (count,)),),
        )  # fmt: skip
        return SetOperation("UNION", start, step, every=True)

    def outputs(self, query: Query) -> list[tuple[str, str]]:
        """Names and kinds of what a query gives."""
        while not isinstance(query, Select | Rows):
            query = query.left if isinstance(query, SetOperation) else query.body  # type: ignore[attr-defined]
        if isinstance(query, Rows):
            return list(zip(query.names(), (each.kind for each in query.rows[0].values), strict=True))
        return [(each.name, each.value.kind) for each in query.targets]


def ordered_by_all(query: Query, order: Order) -> Query:
    """With an order of its own, be it of its body."""
    if isinstance(query, With):
        return replace(query, body=ordered_by_all(query.body, order))
    assert isinstance(query, Select | SetOperation)
    return replace(query, order=order)
