"""The scope of a query level: its range table, and the columns that each entry offers in Spark.

A level is translated in two phases. While its rows are read (FROM, WHERE, the arguments of aggregates), variables mean
columns of range table entries. After grouping, they mean columns of the grouped subquery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from catalog.errors import SluiceError, unsupported
from catalog.model import Table
from planner.functions.volatile import StableArguments
from planner.spark.builders import Expression, column
from planner.spark.plan import Comparison, Context, KeyComparison, OutputColumn, Scan, SparkQuery
from planner.spark.values import Value
from planner.translate.user_types import UserTypes
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from planner.translate.correlation.domain import Domain, Key
    from planner.translate.correlation.source import Source

RTE_RELATION: Final = 0
RTE_SUBQUERY: Final = 1
RTE_JOIN: Final = 2
RTE_FUNCTION: Final = 3
RTE_TABLEFUNC: Final = 4
RTE_VALUES: Final = 5
RTE_CTE: Final = 6
RTE_RESULT: Final = 8
RTE_GROUP: Final = 9
# VarReturningType: of which row a variable in RETURNING is.
RETURNING_OLD: Final = 1
RETURNING_NEW: Final = 2


@dataclass(slots=True)
class ScanBuilder:
    """A scan under construction: the columns that the statement uses."""

    name: str
    alias: str
    table: Table
    is_handed: bool = False
    needs_position: bool = False
    needs_number: bool = False
    locked: bool = False
    restricted: bool = False
    attnums: set[int] = field(default_factory=set)
    predicate: list[Comparison] = field(default_factory=list)
    keys: list[KeyComparison] = field(default_factory=list)
    conjuncts: list[Node] = field(default_factory=list)

    def finished(self) -> Scan:
        from planner.translate import index_matching  # noqa: PLC0415

        if self.is_handed and (self.needs_position or self.needs_number):
            raise unsupported("the place of a temporary table's row together with lake tables")

        return Scan(
            self.name,
            self.table.oid,
            tuple(sorted(self.attnums)),
            tuple(self.predicate),
            self.needs_position,
            tuple(self.keys),
            tuple(index_matching.implied(self.table.indexes, self.conjuncts, self.predicate)),
            self.needs_number,
            self.restricted,
        )


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH query whose Spark name is `name`; `columns` gives its columns under an alias."""

    name: str
    columns: Callable[[str], list[Value]]


class Statement:
    """The shared state of a statement's levels: the context, the scans, and unique names."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.types = UserTypes.of(context.tables.values())
        self.stable_arguments = StableArguments(context.builtins)
        self.scans: list[ScanBuilder] = []
        # A SELECT whose rows are locked (planner.plans.locking_plan), and its limit and offset, which are then applied
        # outside.
        self.locking = False
        # Whether that locates the rows of all tables that it joins, and not of those alone that it locks.
        self.locates_all = False
        self.cut: tuple[int | None, int] = (None, 0)
        # Whether columns of carried types may be output, as texts that PostgreSQL turns into values.
        self.carries = False
        # The WITH queries, by their Spark names, that may return other rows when they are read again.
        self.unrepeatable: set[str] = set()
        # Those with values of window functions that depend on the order of tied rows.
        self.tied: set[str] = set()
        # The levels of a cursor that outputs its rows' places (planner.plans.updatable_cursor), by identity.
        self.updatable: frozenset[int] = frozenset()
        # How many conditional expressions the one in question stands in; whether a subquery stands in one.
        self.branches = 0
        self.is_eager = False
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing else in the statement has."""
        self._count += 1
        return f"{prefix}{self._count}"

    def scan(self, table_oid: int) -> ScanBuilder:
        table = self.context.tables.get(table_oid) or self.context.handed.get(table_oid)
        if table is None:
            raise unsupported("reading a relation outside the lake together with lake tables")
        is_handed = table_oid not in self.context.tables
        builder = ScanBuilder(f"scan_{len(self.scans) + 1}", self.fresh("r"), table, is_handed=is_handed)
        self.scans.append(builder)
        return builder

    def spark_query(self, sql: str, columns: tuple[OutputColumn, ...]) -> SparkQuery:
        """Return the finished query."""
        return SparkQuery(sql, self.finished_scans(), columns, self.is_eager)

    @contextmanager
    def branching(self) -> Iterator[None]:
        """Translate a conditional expression."""
        self.branches += 1
        try:
            yield
        finally:
            self.branches -= 1

    def finished_scans(self) -> tuple[Scan, ...]:
        return tuple(builder.finished() for builder in self.scans)


class Scope:
    """One query level. `ranges` maps a range table index to a function from attribute number to value."""

    def __init__(self, statement: Statement, query: Node, parent: Scope | None) -> None:
        self.statement = statement
        self.query = query
        self.parent = parent
        self.ranges: dict[int, Callable[[int], Value]] = {}
        # The meaning of OLD in RETURNING.
        self.old_ranges: dict[int, Callable[[int], Value]] = {}
        # Which of OLD and NEW in RETURNING has no row; 0 if both have one.
        self.absent_row = 0
        self.scan_ranges: dict[int, ScanBuilder] = {}
        # The scans whose rows have system columns.
        self.row_scans: dict[int, ScanBuilder] = {}
        # Scans whose rows are located without being changed: those that are locked, and those joined to them.
        self.located: dict[int, ScanBuilder] = {}
        # For a level that is `Statement.updatable`: the place of its row.
        self.place: Expression | None = None
        self.common_tables: dict[str, CommonTable] = {}
        # After grouping: the grouped subquery's collector (see planner.translate.grouping); None while rows are read.
        self.grouping: Any = None
        # The source of the level's expressions; None if no rows are read.
        self.source: Source | None = None
        # For a level that depends on outer rows: their values, if these are joined to its own rows, and its keys.
        self.domain: Domain | None = None
        self.keys: list[Key] = []

    def up(self, levels: int) -> Scope:
        """Return the scope `levels` query levels above this one."""
        scope: Scope = self
        for _ in range(levels):
            if scope.parent is None:
                raise SluiceError("XX000", "a variable of a query level that does not exist")
            scope = scope.parent
        return scope

    def below_domain(self, levels: int) -> tuple[Scope, int] | None:
        """Return the level between here and `levels` above that holds outer values, and how far above its parent
        they are."""
        scope: Scope = self
        for passed in range(levels):
            if scope.domain is not None:
                return scope, levels - passed - 1
            scope = scope.up(1)
        return None

    def key_columns(self) -> list[Expression]:
        """Return the keys of a level that depends on outer rows: in its rows, or in its groups."""
        if self.grouping is None:
            return [key.row for key in self.keys]
        return [column(self.grouping.alias, key.output.name) for key in self.keys]

    def outer_value(self, node: Node) -> Value:
        """Return an outer variable or aggregate, as the level above this one writes it, from the level's domain."""
        assert self.domain is not None
        place = self.domain.place(node)
        return self.keys[place].read(self.key_columns()[place])

    def entry(self, index: int) -> Node:
        """Return the range table entry numbered `index`, from 1."""
        found: Node = self.query.rtable[index - 1]
        return found
