"""Queries: the parts of a SELECT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tests.answers.expressions import Expression, Ordered, Ref, Window, listed
from tests.answers.tree import OPTIONAL, Node, fixed, kept, rebuilt, some, switch, walk

# --- FROM ---


@dataclass(frozen=True)
class Source(Node):
    """An item of FROM."""


@dataclass(frozen=True)
class TableItem(Source):
    table: str
    alias: str

    def sql(self) -> str:
        return f"{self.table} AS {self.alias}"


@dataclass(frozen=True)
class Derived(Source):
    query: Query
    alias: str
    lateral: bool = False

    def sql(self) -> str:
        names = f" ({', '.join(self.query.names())})" if isinstance(self.query, Rows) else ""
        return f"{'LATERAL ' if self.lateral else ''}({self.query.sql()}) AS {self.alias}{names}"


@dataclass(frozen=True)
class Called(Source):
    """A function in FROM, with a number for each row: `template` has {0} for the arguments, {alias} for its name."""

    template: str
    arguments: tuple[Expression, ...] = fixed()
    alias: str = ""
    columns: tuple[tuple[str, str], ...] = ()  # names and kinds; the last is the number

    def sql(self) -> str:
        return self.template.format(*(each.sql() for each in self.arguments), alias=self.alias)


@dataclass(frozen=True)
class Join(Source):
    left: Source
    kind: str
    right: Source
    on: tuple[Expression, ...] = ()
    using: tuple[str, ...] = kept()

    def sql(self) -> str:
        right = f"({self.right.sql()})" if isinstance(self.right, Join) else self.right.sql()
        join = f"{self.left.sql()} {self.kind} JOIN {right}"
        if self.kind == "CROSS":
            return join
        if self.using:
            return f"{join} USING ({', '.join(self.using)})"
        return f"{join} ON {' AND '.join(each.sql() for each in self.on) or 'true'}"

    def simpler(self) -> Iterator[Node]:
        yield self.left
        yield self.right
        if self.kind != "INNER":
            yield replace(self, kind="INNER")


# --- the query ---


@dataclass(frozen=True)
class Query(Node):
    """Whatever gives rows."""

    def names(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def is_list(self) -> bool:
        """Whether the order of its rows is certain."""
        return False

    def simpler(self) -> Iterator[Node]:
        yield from (each for each in walk(self) if isinstance(each, Query) and each is not self)


@dataclass(frozen=True)
class Target(Node):
    value: Expression
    name: str

    def sql(self) -> str:
        return f"{self.value.sql()} AS {self.name}"


@dataclass(frozen=True)
class Cut(Node):
    """LIMIT and OFFSET."""

    limit: int | None
    offset: int | None = None
    ties: bool = switch()

    def sql(self) -> str:
        offset = "" if self.offset is None else f" OFFSET {self.offset}"
        if self.ties:
            return f"{offset} FETCH FIRST {self.limit} ROWS WITH TIES"
        return ("" if self.limit is None else f" LIMIT {self.limit}") + offset

    def simpler(self) -> Iterator[Node]:
        if self.offset is not None and self.limit is not None:
            yield Cut(self.limit)
            yield Cut(None, self.offset)


@dataclass(frozen=True)
class Order(Node):
    """ORDER BY, with LIMIT. `keys` tell all rows apart, or (`by_all`) all output columns follow."""

    items: tuple[Ordered, ...] = ()
    keys: tuple[Expression, ...] = kept()
    by_all: bool = False
    cut: Cut | None = field(default=None, metadata=OPTIONAL)

    @property
    def is_total(self) -> bool:
        return self.by_all or bool(self.keys)

    def clause(self, columns: int) -> str:
        words = [each.sql() for each in (*self.items, *self.keys)]
        if self.by_all:
            words += [str(number) for number in range(1, columns + 1)]
        order = f" ORDER BY {', '.join(words)}" if words else ""
        return order + ("" if self.cut is None else self.cut.sql())


@dataclass(frozen=True)
class Grouping(Node):
    """GROUP BY; `form` is "", ROLLUP, CUBE or GROUPING SETS, or says how these stand together."""

    keys: tuple[Expression, ...] = ()
    form: str = ""
    total: bool = True

    def sql(self) -> str:
        if not self.keys:
            return "()"
        if self.form == "MIXED":
            return f"{self.keys[0].sql()}, ROLLUP ({listed(self.keys[1:] or self.keys)})"
        if self.form == "CROSSED":
            return f"CUBE ({self.keys[0].sql()}), ROLLUP ({listed(self.keys[1:] or self.keys)})"
        if self.form == "NESTED":
            return (
                f"GROUPING SETS (ROLLUP ({listed(self.keys)}), ({self.keys[-1].sql()}){', ()' if self.total else ''})"
            )
        if self.form == "DISTINCT":
            return f"DISTINCT ROLLUP ({listed(self.keys)}), ROLLUP ({self.keys[0].sql()})"
        if self.form == "GROUPING SETS":
            sets = [f"({each.sql()})" for each in self.keys]
            if len(sets) > 1:
                sets.insert(0, f"({listed(self.keys)})")
            return f"GROUPING SETS ({', '.join(sets)}{', ()' if self.total else ''})"
        return f"{self.form} ({listed(self.keys)})" if self.form else listed(self.keys)

    def simpler(self) -> Iterator[Node]:
        if self.form:
            yield replace(self, form="")


@dataclass(frozen=True)
class DistinctOn(Node):
    """DISTINCT ON: `keys` tell all rows apart, so that the first is certain. Says the order too."""

    values: tuple[Expression, ...] = some()
    order: tuple[Ordered, ...] = ()
    keys: tuple[Expression, ...] = kept()

    def sql(self) -> str:
        return f"DISTINCT ON ({listed(self.values)}) "

    def clause(self) -> str:
        return f" ORDER BY {listed((*self.values, *self.order, *self.keys))}"


@dataclass(frozen=True)
class Select(Query):
    targets: tuple[Target, ...] = some()
    source: Source | None = field(default=None, metadata=OPTIONAL)
    where: tuple[Expression, ...] = ()
    grouping: Grouping | None = field(default=None, metadata=OPTIONAL)
    having: tuple[Expression, ...] = ()
    distinct: bool = switch()
    distinct_on: DistinctOn | None = field(default=None, metadata=OPTIONAL)
    order: Order | None = field(default=None, metadata=OPTIONAL)

    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.targets)

    @property
    def is_list(self) -> bool:
        return self.distinct_on is not None or (self.order is not None and self.order.is_total)

    def sql(self) -> str:
        words = ["SELECT "]
        if self.distinct_on is not None:
            words.append(self.distinct_on.sql())
        elif self.distinct:
            words.append("DISTINCT ")
        words.append(listed(self.targets))
        if self.source is not None:
            words.append(f" FROM {self.source.sql()}")
        if self.where:
            words.append(f" WHERE {' AND '.join(each.sql() for each in self.where)}")
        if self.grouping is not None:
            words.append(f" GROUP BY {self.grouping.sql()}")
        if self.having:
            words.append(f" HAVING {' AND '.join(each.sql() for each in self.having)}")
        if self.distinct_on is not None:
            words.append(self.distinct_on.clause())
        elif self.order is not None:
            words.append(self.order.clause(len(self.targets)))
        return "".join(words)


@dataclass(frozen=True)
class SetOperation(Query):
    word: str
    left: Query
    right: Query
    every: bool = switch()
    order: Order | None = field(default=None, metadata=OPTIONAL)

    def names(self) -> tuple[str, ...]:
        return self.left.names()

    @property
    def is_list(self) -> bool:
        return self.order is not None and self.order.is_total

    def sql(self) -> str:
        order = "" if self.order is None else self.order.clause(len(self.names()))
        return f"({self.left.sql()}) {self.word}{' ALL' if self.every else ''} ({self.right.sql()}){order}"


@dataclass(frozen=True)
class Row(Node):
    values: tuple[Expression, ...] = fixed()

    def sql(self) -> str:
        return f"({listed(self.values)})"


@dataclass(frozen=True)
class Rows(Query):
    """VALUES."""

    rows: tuple[Row, ...] = some()

    def names(self) -> tuple[str, ...]:
        return tuple(f"c{number}" for number in range(1, len(self.rows[0].values) + 1))

    def sql(self) -> str:
        return f"VALUES {listed(self.rows)}"


@dataclass(frozen=True)
class Common(Node):
    """A query of WITH."""

    name: str
    query: Query
    word: str = ""  # MATERIALIZED, NOT MATERIALIZED
    clause: str = ""  # SEARCH, CYCLE

    def sql(self) -> str:
        return f"{self.name} ({', '.join(self.query.names())}) AS {self.word}({self.query.sql()}){self.clause}"


@dataclass(frozen=True)
class With(Query):
    common: tuple[Common, ...]
    body: Query
    recursive: bool = False

    def names(self) -> tuple[str, ...]:
        return self.body.names()

    @property
    def is_list(self) -> bool:
        return self.body.is_list

    def sql(self) -> str:
        if not self.common:
            return self.body.sql()
        return f"WITH {'RECURSIVE ' if self.recursive else ''}{listed(self.common)} {self.body.sql()}"


def tidy(statement: Node) -> Node:
    """Take those keys out that tell apart rows of what is no longer there. The rest still tells all others apart."""
    columns: dict[str, frozenset[str] | None] = {}
    commons = {each.name: frozenset(each.query.names()) for each in walk(statement) if isinstance(each, Common)}
    for item in walk(statement):
        if isinstance(item, Derived):
            columns[item.alias] = frozenset(item.query.names())
        elif isinstance(item, TableItem):
            columns[item.alias] = commons.get(item.table)
        elif isinstance(item, Called):
            columns[item.alias] = frozenset(name for name, _ in item.columns)

    def is_there(key: Node) -> bool:
        return all(
            ref.alias in columns and ((found := columns[ref.alias]) is None or ref.column in found)
            for ref in walk(key)
            if isinstance(ref, Ref) and ref.alias
        )

    def tidied(node: Node) -> Node:
        if isinstance(node, Order | Window | DistinctOn) and node.keys:
            return replace(node, keys=tuple(key for key in node.keys if is_there(key)))
        return node

    result: Node = rebuilt(statement, tidied)
    return result
