"""Expressions, each with the kind of its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.answers.tree import OPTIONAL, Node, fixed, kept, parts, some, switch
from tests.answers.types import KINDS


@dataclass(frozen=True)
class Expression(Node):
    kind: str

    def simpler(self) -> Iterator[Node]:
        for part in parts(self):
            if isinstance(part, Expression) and part.kind == self.kind:
                yield part
        if not isinstance(self, Literal | Ref):
            yield plain(self.kind)


@dataclass(frozen=True)
class Literal(Expression):
    """A value, as SQL."""

    text: str

    def sql(self) -> str:
        return self.text


def plain(kind: str) -> Literal:
    """The type's first value."""
    return Literal(kind, KINDS[kind].literal(KINDS[kind].texts[0]))


@dataclass(frozen=True)
class Ref(Expression):
    """A column; without an alias, one that USING has merged."""

    alias: str
    column: str

    def sql(self) -> str:
        return f"{self.alias}.{self.column}" if self.alias else self.column


@dataclass(frozen=True)
class Apply(Expression):
    """An operator, a function or a cast: a template with its arguments."""

    template: str
    arguments: tuple[Expression, ...] = fixed()

    def sql(self) -> str:
        return self.template.format(*(each.sql() for each in self.arguments))


@dataclass(frozen=True)
class Connected(Expression):
    """Conditions with AND or OR between them."""

    word: str
    arguments: tuple[Expression, ...] = some()

    def sql(self) -> str:
        return "(" + f" {self.word} ".join(each.sql() for each in self.arguments) + ")"


@dataclass(frozen=True)
class When(Node):
    condition: Expression
    result: Expression

    def sql(self) -> str:
        return f"WHEN {self.condition.sql()} THEN {self.result.sql()}"


@dataclass(frozen=True)
class Case(Expression):
    whens: tuple[When, ...] = some()
    otherwise: Expression | None = field(default=None, metadata=OPTIONAL)

    def sql(self) -> str:
        other = "" if self.otherwise is None else f" ELSE {self.otherwise.sql()}"
        return f"(CASE {' '.join(each.sql() for each in self.whens)}{other} END)"

    def simpler(self) -> Iterator[Node]:
        yield from (each.result for each in self.whens)
        yield from super().simpler()


@dataclass(frozen=True)
class Ordered(Node):
    """An item of ORDER BY."""

    value: Expression
    descending: bool = switch()
    nulls: str = ""

    def sql(self) -> str:
        nulls = f" NULLS {self.nulls}" if self.nulls else ""
        return f"{self.value.sql()}{' DESC' if self.descending else ''}{nulls}"


def listed(nodes: tuple[Node, ...]) -> str:
    return ", ".join(each.sql() for each in nodes)


@dataclass(frozen=True)
class Aggregate(Expression):
    """`template` has {0} for the arguments, {order} for ORDER BY inside the parentheses."""

    template: str
    arguments: tuple[Expression, ...] = fixed()
    distinct: bool = switch()
    order: tuple[Ordered, ...] = kept()
    filter: Expression | None = field(default=None, metadata=OPTIONAL)

    def sql(self) -> str:
        call = self.call()
        if self.filter is None:
            return call
        cast = "::text" if self.template.endswith("::text") else ""
        return f"{call.removesuffix(cast)} FILTER (WHERE {self.filter.sql()}){cast}"

    def call(self) -> str:
        # The argument ends the order, also where the argument gets simpler: what then ties is the same.
        order = f"ORDER BY {listed((*self.order, *self.arguments))}" if self.order else ""
        distinct = "DISTINCT " if self.distinct else ""
        return self.template.format(*(each.sql() for each in self.arguments), distinct=distinct, order=order)

    def simpler(self) -> Iterator[Node]:
        yield plain(self.kind)


@dataclass(frozen=True)
class Frame(Node):
    """A window's frame."""

    mode: str
    start: str
    end: str
    exclude: str = ""

    def sql(self) -> str:
        exclude = f" EXCLUDE {self.exclude}" if self.exclude else ""
        return f"{self.mode} BETWEEN {self.start} AND {self.end}{exclude}"

    def simpler(self) -> Iterator[Node]:
        if self.exclude:
            yield Frame(self.mode, self.start, self.end)


@dataclass(frozen=True)
class Window(Expression):
    """A window function: `keys` end the order, so that it is total where it has to be."""

    function: Expression
    partition: tuple[Expression, ...] = ()
    order: tuple[Ordered, ...] = ()
    keys: tuple[Expression, ...] = kept()
    frame: Frame | None = field(default=None, metadata=OPTIONAL)

    def sql(self) -> str:
        words = []
        if self.partition:
            words.append(f"PARTITION BY {listed(self.partition)}")
        if self.order or self.keys:
            words.append(f"ORDER BY {listed((*self.order, *self.keys))}")
        if self.frame is not None:
            words.append(self.frame.sql())
        return f"{self.function.sql()} OVER ({' '.join(words)})"

    def simpler(self) -> Iterator[Node]:
        yield plain(self.kind)


# --- subqueries ---


@dataclass(frozen=True)
class Scalar(Expression):
    query: Node

    def sql(self) -> str:
        return f"({self.query.sql()})"


@dataclass(frozen=True)
class ArrayOf(Expression):
    query: Node

    def sql(self) -> str:
        return f"ARRAY({self.query.sql()})"


@dataclass(frozen=True)
class Exists(Expression):
    query: Node
    negated: bool = switch()

    def sql(self) -> str:
        return f"({'NOT ' if self.negated else ''}EXISTS ({self.query.sql()}))"


@dataclass(frozen=True)
class In(Expression):
    """One value or a row of them, IN what a query gives."""

    values: tuple[Expression, ...]  # as many as the query has columns
    query: Node
    negated: bool = switch()

    def sql(self) -> str:
        left = f"({listed(self.values)})"
        return f"({left} {'NOT ' if self.negated else ''}IN ({self.query.sql()}))"

    def simpler(self) -> Iterator[Node]:
        yield plain(self.kind)


@dataclass(frozen=True)
class Quantified(Expression):
    value: Expression
    operator: str
    word: str  # ANY or ALL
    query: Node

    def sql(self) -> str:
        return f"({self.value.sql()} {self.operator} {self.word} ({self.query.sql()}))"
