"""The rows that a level reads: the items of FROM, and the subqueries that are joined to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from catalog.errors import unsupported
from planner.spark.builders import Expression, and_
from planner.spark.constant_logic import filtered
from planner.tree.nodes import Node


@dataclass(slots=True)
class Relation:
    """An item of FROM: a head and the joins that follow it; `head` is None if nothing is read.

    `side` and `condition` say how the item joins those before it; a plain item has neither.
    """

    head: Expression | None
    joins: list[exp.Join]
    side: str | None = None
    condition: Expression | None = None

    def tables(self) -> set[str]:
        """Return the aliases of the relations that the item joins."""
        parts = [] if self.head is None else [self.head]
        return set().union(*(aliases(part) for part in [*parts, *(join.this for join in self.joins)]))


@dataclass(slots=True)
class Source:
    """The relation over which a level's expressions are computed in the present phase: its rows, or its groups.

    `added` are joined subqueries, none of which multiplies a row. `conditions` are those of WHERE, as far as known.
    `postponed` are conditions of inner joins that go there because of their subqueries. While FROM is read, `foreseen`
    returns the conditions of WHERE on what has been read. `grouped` returns the grouped subquery, if the level has been
    grouped. `is_pair`: these are the two sides of a join, whose condition is read; a subquery is joined to one of them
    and drops none of its rows. `domain` stands before the pair if the level depends on outer rows.
    """

    items: list[Relation] = field(default_factory=list)
    added: list[exp.Join] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    postponed: list[Node] = field(default_factory=list)
    foreseen: Callable[[], list[Expression]] | None = None
    grouped: Callable[[], exp.Subquery] | None = None
    is_pair: bool = False
    domain: Relation | None = None

    def add(self, relation: Expression, kind: str, condition: Expression) -> None:
        """Join a subquery: LEFT, LEFT SEMI or LEFT ANTI."""
        self.added.append(join(relation, kind, condition))

    def keep(self, condition: Expression | None) -> None:
        """Add a condition; None for one that has become a join."""
        if condition is not None:
            self.conditions.append(condition)

    def where(self) -> Expression | None:
        """Return the conjunction of all conditions."""
        return filtered(self.conditions, conjunction=True) if self.conditions else None

    def joined(self) -> tuple[Expression | None, list[exp.Join]]:
        """Return FROM, as a head and its joins."""
        head, joins = _joined(self.items) if self.grouped is None else (self.grouped(), [])
        return head, [*joins, *self.added]

    def sides(self) -> tuple[Relation, Relation]:
        """Return the sides of a pair, each with the joins added to it."""
        left, right = self.items
        for added in self.added:
            tables = _tables(added.args["on"]) - aliases(added.this)
            tables -= set() if self.domain is None else self.domain.tables()
            side = left if tables <= left.tables() else right
            if not tables <= side.tables():
                raise unsupported("a subquery that depends on both sides of a join in whose condition it is")
            side.joins.append(added)
        return left, right

    def copied(self, values: Iterable[Expression], unrepeatable: Collection[str]) -> exp.Select:
        """Return SELECT without a list, over rows that include all that these expressions use of the level's rows.

        `unrepeatable` are the WITH queries that may return other rows when they are read again.
        """
        tables = set().union(*(_tables(value) for value in values))
        joins: list[exp.Join] = []
        for added in reversed(self.added):
            if added.this.alias in tables:
                joins.insert(0, added)
                tables |= _tables(added.args["on"])
        groups = None if self.grouped is None else self.grouped()
        if groups is not None:
            head: Expression | None = groups
            provided = {groups.alias}
        else:
            items = self._needed(tables)
            head, above = _joined(items)
            joins = above + joins
            provided = set().union(*(item.tables() for item in items))
        provided |= {added.this.alias for added in joins}
        if not tables <= provided:
            raise unsupported("a correlated subquery in this place")
        conditions = self.conditions if self.foreseen is None else self.foreseen()
        kept = [each for each in conditions if _tables(each) <= provided and each.find(exp.Query) is None]
        if groups is not None:
            head = _with_columns(groups, [*values, *kept], joins)
        result = exp.Select()
        if head is not None:
            result.set("from_", exp.From(this=head.copy()))
        result.set("joins", [added.copy() for added in joins])
        if kept:
            result.set("where", exp.Where(this=and_(*kept).copy()))
        require_repeatable(result, unrepeatable)
        return result

    def _needed(self, tables: set[str]) -> list[Relation]:
        """Return the items that provide these tables, and those that their joins use. `tables` grows by the latter."""
        chosen: list[Relation] = []
        for item in reversed(self.items if self.domain is None else [self.domain, *self.items]):
            if item.tables() & tables:
                chosen.insert(0, item)
                for condition in (item.condition, *(each.args.get("on") for each in item.joins)):
                    if condition is not None:
                        tables |= _tables(condition)
        return chosen


def _with_columns(groups: exp.Subquery, values: Iterable[Expression], joins: Iterable[exp.Join]) -> exp.Subquery:
    """Return the groups with only those columns that the values and the conditions of the joins use.

    Their number of rows stays: it is the aggregate without which a group of all rows would be every row.
    """
    users = [*values, *(each.args["on"] for each in joins)]
    used = {item.name for user in users for item in user.find_all(exp.Column) if item.table == groups.alias}
    used.add(f"{groups.alias}_n")
    parts = [groups.this]
    while parts:
        part = parts.pop()
        if isinstance(part, exp.SetOperation):
            parts += [part.this, part.expression]
            continue
        kept = [item for item in part.expressions if item.alias_or_name in used]
        part.set("expressions", kept or part.expressions[:1])
    return groups


def join(relation: Expression, kind: str | None, condition: Expression | None) -> exp.Join:
    """Return a join; `kind` is None for an inner one."""
    side, _, form = (kind or "").partition(" ")
    if condition is None and kind is not None:
        condition = exp.Boolean(this=True)
    return exp.Join(
        this=relation,
        side=side or None,
        kind=form or ("CROSS" if condition is None else None),
        on=condition,
    )


def _joined(items: list[Relation]) -> tuple[Expression | None, list[exp.Join]]:
    head: Expression | None = None
    joins: list[exp.Join] = []
    for item in items:
        if item.head is None:
            continue
        if head is None and item.condition is None:
            head, joins = item.head, list(item.joins)
        elif head is None:
            raise unsupported("LATERAL at the head of a nested join")
        elif any(each.side == "FULL" for each in item.joins):
            # Spark joins from left to right, commas included: the join would keep rows of the relations before the
            # item.
            plain = Relation(item.head, item.joins)
            joins.append(join(exp.Paren(this=nested(plain)), item.side, item.condition))
        else:
            joins.append(_listed(item))
            joins += item.joins
    return head, joins


def _listed(item: Relation) -> exp.Join:
    assert item.head is not None
    if item.condition is None and item.side is None:
        return exp.Join(this=item.head)
    return join(item.head, item.side, item.condition)


def nested(relation: Relation) -> Expression:
    """Return the relation's head with its joins, to be put in parentheses."""
    head = relation.head
    assert head is not None
    for each in relation.joins:
        if not _tables(each.args["on"] or exp.Null()) <= relation.tables():
            raise unsupported("a condition of this join on a row outside of it")
    if relation.condition is None and isinstance(head, (exp.Table, exp.Subquery)):
        copied = head.copy()
        copied.set("joins", relation.joins)
        return copied
    raise unsupported("LATERAL at the head of a nested join")


def without_outside(relation: Relation) -> tuple[Relation, list[Expression]]:
    """Return the relation without conditions of inner joins on rows outside of it, and these conditions."""
    if any(each.side == "FULL" for each in relation.joins):
        return relation, []
    own = relation.tables()
    joins: list[exp.Join] = []
    found: list[Expression] = []
    for each in relation.joins:
        condition = each.args["on"]
        outside = not each.side and condition is not None and not _tables(condition) <= own
        joins.append(join(each.this, None, None) if outside else each)
        found += [condition] if outside else []
    return replace(relation, joins=joins), found


def aliases(relation: Expression) -> set[str]:
    """Return the aliases that a relation in FROM offers: a table, a derived table, or a join in parentheses."""
    if isinstance(relation, exp.Paren):
        return aliases(relation.this)
    found = {relation.alias_or_name}
    for each in relation.args.get("joins") or ():
        found |= aliases(each.this)
    return found


def _tables(expression: Expression) -> set[str]:
    """Return the aliases whose columns an expression uses, without those of its own subqueries."""
    own = set()
    for query in expression.find_all(exp.Select):
        own |= select_aliases(query)
    return {column.table for column in expression.find_all(exp.Column)} - own


def select_aliases(query: exp.Select) -> set[str]:
    """Return the aliases that FROM of one SELECT offers."""
    parts = [query.args["from_"].this] if query.args.get("from_") is not None else []
    parts += [each.this for each in query.args.get("joins") or ()]
    return set().union(*(aliases(part) for part in parts))


# Functions that may return another value when computed again, in the same statement and over the same rows.
_UNREPEATABLE: Final = frozenset(
    {"any_value", "collect_list", "collect_set", "first", "last", "monotonically_increasing_id", "rand", "randn",
     "shuffle", "try_sum", "uuid"}
)  # fmt: skip


# Each subquery that is computed for a domain holds a copy of the rows before it: a chain of them doubles with each.
_NODES_MAX: Final = 10_000


def require_repeatable(query: Expression, unrepeatable: Collection[str]) -> None:
    """Raise 0A000 if rows that are read twice might differ, because joins by them would lose rows.

    Also if the query is too large to be written twice.
    """
    for count, node in enumerate(query.walk()):
        if count > _NODES_MAX:
            raise unsupported("a correlated subquery over so large a query")
        if isinstance(node, exp.Table) and node.name in unrepeatable:
            raise unsupported("a correlated subquery over the rows of this WITH query")
        if isinstance(node, (exp.Limit, exp.Offset)) and not _is_total(node.parent):
            raise unsupported("a correlated subquery over the rows of a LIMIT")
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            floats = name in ("sum", "avg") and any(_is_double(each) for each in node.expressions)
            sorted_ = isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == "array_sort"
            if floats or (name in _UNREPEATABLE and not sorted_):
                raise unsupported(f"a correlated subquery over rows computed by {name}")


# Window functions that give rows which tie the same.
_OF_PEERS: Final = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})


def has_total_windows(query: Expression) -> bool:
    """Whether no window function's value depends on the order of tied rows."""
    return all(map(_is_window_total, query.find_all(exp.Window)))


def _is_window_total(window: exp.Window) -> bool:
    if window.this.name.lower() in _OF_PEERS:
        return True
    frame, order = window.args.get("spec"), window.args.get("order")
    if frame is not None and (frame.args["kind"] == "RANGE" or frame.args["start"] == frame.args["end"] == "UNBOUNDED"):
        return window.this.name.lower() not in {"first", "first_value", "last", "last_value", "nth_value"}
    select = window.find_ancestor(exp.Select)
    if order is None or select is None:
        return False
    known = {item.this for item in order.expressions} | set(window.args.get("partition_by") or ())
    others = [item for item in select.expressions if item.find(exp.Window) is None]
    return all((item.this if isinstance(item, exp.Alias) else item) in known for item in others)


def _is_double(expression: Expression) -> bool:
    return isinstance(expression, exp.Cast) and expression.to.args.get("kind") == "DOUBLE"


def _is_total(query: Expression | None) -> bool:
    """Whether the order that a LIMIT cuts is over all columns, so that only equal rows are interchangeable."""
    if not isinstance(query, exp.Select) or query.args.get("order") is None:
        return False
    ordered = {item.this for item in query.args["order"].expressions}
    return all(item in ordered for item in query.expressions)
