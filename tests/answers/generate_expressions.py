"""Random expressions of a kind, with subqueries among them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.answers import templates
from tests.answers.expressions import (
    Aggregate,
    Apply,
    ArrayOf,
    Case,
    Connected,
    Exists,
    Expression,
    Frame,
    In,
    Literal,
    Ordered,
    Quantified,
    Ref,
    Scalar,
    When,
    Window,
)
from tests.answers.queries import Query
from tests.answers.scope import Scope
from tests.answers.types import KINDS, PLAIN_TEXT, WIDER

_CORRELATED: Final = (
    "({0} = {1})", "({0} = {1})", "({0} = {1})", "({0} < {1})", "({0} >= {1})", "({0} <> {1})",
    "({0} IS NOT DISTINCT FROM {1})", "({0} IS DISTINCT FROM {1})",
)  # fmt: skip
_OPERATORS: Final = ("=", "<>", "<", ">=", ">", "<=")
_STARTS: Final = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING")
_ENDS: Final = ("1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
_PLACES: Final = {
    "UNBOUNDED PRECEDING": 0, "2 PRECEDING": 1, "1 PRECEDING": 2, "CURRENT ROW": 3, "1 FOLLOWING": 4, "2 FOLLOWING": 5,
    "UNBOUNDED FOLLOWING": 6,
}  # fmt: skip
# By which RANGE counts, near and far.
DISTANCES: Final = {
    "int4": ("1", "2"), "int8": ("1", "2"), "numeric": ("1.5", "100"), "float8": ("0.5", "2.5"),
    "date": ("interval '1 day'", "interval '3 months'"), "timestamp": ("interval '2 hours'", "interval '61 days'"),
    "timestamptz": ("interval '1 hour'", "interval '1 year'"), "time": ("interval '1 hour'", "interval '13 hours'"),
}  # fmt: skip
_EXCLUSIONS: Final = ("CURRENT ROW", "GROUP", "TIES", "NO OTHERS")
_PLAIN: Final = ("int4", "int4", "text", "numeric", "int8", "date", "bool", "timestamp", "mood")


class Expressions:
    """Expressions over a scope. Queries inside come from the class that inherits."""

    left: int  # how many more queries the statement may have
    aliases: int
    spicy: bool  # whether it has what the planner leaves to PostgreSQL

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._names = list(KINDS)
        self._weights = [kind.weight for kind in KINDS.values()]
        self._orderable = [name for name in self._names if KINDS[name].ordered and name not in {"uuid", "bytea"}]

    def likely(self, share: float) -> bool:
        return self.chance.random() < share

    def any_kind(self) -> str:
        kind = self.chance.choices(self._names, self._weights)[0]
        return kind if self.spicy or kind not in PLAIN_TEXT else "int4"

    def ordered_kind(self, scope: Scope | None = None) -> str:
        """A kind that has an order; most often one that the scope has."""
        there = () if scope is None else [each.kind for each in scope.leaves if each.kind in self._orderable]
        if there and self.likely(0.85):
            return self.chance.choice(there)
        return self.chance.choice(_PLAIN) if self.likely(0.8) else self.chance.choice(self._orderable)

    # --- queries, which the class that inherits makes ---

    def can_nest(self, depth: int) -> bool:
        raise NotImplementedError

    def one_row(self, outer: Scope, kind: str) -> Query:
        raise NotImplementedError

    def many_rows(self, outer: Scope, kinds: Sequence[str]) -> Query:
        raise NotImplementedError

    def all_rows(self, outer: Scope, kind: str) -> Query:
        raise NotImplementedError

    def sorted_rows(self, outer: Scope, kind: str) -> Query:
        raise NotImplementedError

    # --- values ---

    def literal(self, kind: str) -> Literal:
        if self.likely(0.1):
            return Literal(kind, KINDS[kind].null)
        return Literal(kind, KINDS[kind].literal(self.chance.choice(KINDS[kind].texts)))

    def column(self, scope: Scope, kind: str) -> Expression:
        """A column of this level, or a value."""
        return scope.pick(self.chance, kind, 0.0) or self.literal(kind)

    def leaf(self, scope: Scope, kind: str, local: bool) -> Expression:
        if scope.rows is not None and self.likely(0.6):
            found = self.aggregate(scope.rows, kind)
            if found is not None:
                return found
        if self.likely(0.1) and kind != "jsonb":
            return self.literal(kind)
        return scope.pick(self.chance, kind, 0.0 if local else 0.25) or self.literal(kind)

    def value(self, scope: Scope, kind: str, depth: int, *, local: bool = False) -> Expression:
        """An expression of the kind. `local`: over this level's columns alone, without subqueries."""
        if depth <= 0:
            return self.leaf(scope, kind, local)
        pick = self.chance.random()
        if not local and self.can_nest(depth):
            if pick < 0.2:
                return Scalar(kind, self.one_row(scope, kind))
            if pick < 0.24 and kind in {"int4[]", "text[]"}:
                return ArrayOf(kind, self.sorted_rows(scope, kind.removesuffix("[]")))
        if pick < 0.5:
            return self.leaf(scope, kind, local)
        if kind == "bool" and pick < 0.9:
            return self.boolean(scope, depth, local=local)
        if pick < 0.58:
            return self._case(scope, kind, depth, local)
        known = templates.FUNCTIONS.get(kind, []) if pick < 0.9 else templates.GENERAL.get(kind, [])
        if self.spicy and self.likely(0.3):
            known = templates.SELDOM.get(kind, [])
        if not known:
            return self.leaf(scope, kind, local)
        return self._applied(scope, kind, self.chance.choice(known), depth, local)

    def _applied(self, scope: Scope, kind: str, template: templates.Template, depth: int, local: bool) -> Expression:
        text, kinds = template
        if "jsonb" in kinds and not self.spicy and not any(each.kind == "jsonb" for each in scope.leaves):
            return self.leaf(scope, kind, local)
        # Numbers would outgrow their types: of two arguments one is plain.
        depths = [depth - 1 if number == 0 else 0 for number in range(len(kinds))]
        arguments = tuple(self.value(scope, each, d, local=local) for each, d in zip(kinds, depths, strict=True))
        return Apply(kind, text, arguments)

    def _case(self, scope: Scope, kind: str, depth: int, local: bool) -> Expression:
        whens = tuple(
            When(self.boolean(scope, depth - 1, local=local), self.value(scope, kind, depth - 1, local=local))
            for _ in range(self.chance.choice((1, 1, 2)))
        )
        if not local and self.can_nest(depth) and self.likely(0.3):
            # Several rows are an error if the branch is taken, and none if it is not.
            several = self.many_rows(scope, (kind,)) if self.likely(0.3) else self.all_rows(scope, kind)
            whens = (*whens, When(self._comparison(scope, 0, local), Scalar(kind, several)))
        return Case(kind, whens, self.value(scope, kind, 0, local=local) if self.likely(0.7) else None)

    # --- conditions ---

    def boolean(self, scope: Scope, depth: int, *, local: bool = False) -> Expression:
        if depth <= 0:
            return self._comparison(scope, 0, local)
        if not local and self.can_nest(depth) and self.likely(0.35):
            return self._over_subquery(scope)
        pick = self.chance.random()
        if pick < 0.2:
            count = self.chance.choice((2, 2, 3))
            parts = tuple(self.boolean(scope, depth - 1, local=local) for _ in range(count))
            return Connected("bool", self.chance.choice(("AND", "OR")), parts)
        if pick < 0.35:
            known = templates.SELDOM if self.spicy and self.likely(0.3) else templates.FUNCTIONS
            template = self.chance.choice(known["bool"])
            return self._applied(scope, "bool", template, depth, local)
        if pick < 0.45:
            value = self.value(scope, self.any_kind(), depth - 1, local=local)
            return Apply("bool", self.chance.choice(templates.NULL_TESTS), (value,))
        if pick < 0.55:
            kind = self.ordered_kind(scope)
            values = tuple(self.value(scope, kind, 0, local=local) for _ in range(3))
            return Apply("bool", self.chance.choice(templates.BETWEEN), values)
        return self._comparison(scope, depth - 1, local)

    def _comparison(self, scope: Scope, depth: int, local: bool) -> Expression:
        kind = self.any_kind() if self.likely(0.2) else self.ordered_kind(scope)
        other = self.chance.choice(WIDER[kind]) if kind in WIDER and self.likely(0.15) else kind
        times = other != kind and "date" in {kind, other}
        operators = templates.COMPARISONS if KINDS[kind].ordered and not times else templates.COMPARISONS[:7]
        left, right = self.value(scope, kind, depth, local=local), self.value(scope, other, 0, local=local)
        return Apply("bool", self.chance.choice(operators), (left, right))

    def equality(self, left: Scope, right: Scope) -> Expression:
        """Of a column of each side."""
        shared = {each.kind for each in left.leaves} & {each.kind for each in right.leaves}
        kinds = sorted(shared & (set(_PLAIN) if self.likely(0.9) else set(self._orderable)))
        kind = "int4" if self.likely(0.6) or not kinds else self.chance.choice(kinds)
        return Apply("bool", "({0} = {1})", (self.column(left, kind), self.column(right, kind)))

    def correlation(self, scope: Scope, outer: Scope) -> Expression:
        """Of a column here and an expression over one outside."""
        kinds = [each.kind for each in outer.below() if each.kind in WIDER or each.kind == "mood"]
        kind = "int4" if self.likely(0.4) or not kinds else self.chance.choice(kinds)
        around = [each for each in outer.below() if each.kind == kind]
        outside: Expression = self.chance.choice(around) if around else self.literal(kind)
        if self.likely(0.35):
            outside = self._turned(outside)
        inside = self.column(scope, kind)
        if self.likely(0.1):
            inside = self._turned(inside)
        return Apply("bool", self.chance.choice(_CORRELATED), (inside, outside))

    def _turned(self, value: Expression) -> Expression:
        """An expression over it: a sum, coalesce, a cast."""
        kind = value.kind
        if kind in {"int4", "int8", "numeric"} and self.likely(0.6):
            template = self.chance.choice(("({0} + 1)", "({0} - 1)", "({0})::int8", "({0})::numeric", "abs({0})"))
            return Apply(kind, template, (value,))
        return Apply(kind, "coalesce({0}, {1})", (value, self.literal(kind)))

    def _over_subquery(self, scope: Scope) -> Expression:
        pick = self.chance.random()
        if pick < 0.3:
            return Exists("bool", self.many_rows(scope, ("int4",)), self.likely(0.4))
        kind = self.ordered_kind(scope)
        if pick < 0.6:
            value = self.value(scope, kind, 1)
            return In("bool", (value,), self.many_rows(scope, (kind,)), self.likely(0.45))
        if pick < 0.7:
            values = self.value(scope, "int4", 0), self.value(scope, "text", 0)
            return In("bool", values, self.many_rows(scope, ("int4", "text")), self.likely(0.3))
        if pick < 0.85:
            operator, word = self.chance.choice(_OPERATORS), self.chance.choice(("ANY", "ALL"))
            return Quantified("bool", self.value(scope, kind, 0), operator, word, self.many_rows(scope, (kind,)))
        left = self.value(scope, kind, 0)
        return Apply("bool", self.chance.choice(templates.COMPARISONS), (left, Scalar(kind, self.one_row(scope, kind))))

    # --- aggregates and windows ---

    def aggregate(self, rows: Scope, kind: str, *, plain: bool = False) -> Aggregate | None:
        """An aggregate over rows that gives the kind; `plain`: as windows take it."""
        known = templates.AGGREGATES.get(kind, [])
        if self.spicy and self.likely(0.3):
            known = templates.SELDOM_AGGREGATES.get(kind, known)
        if plain:
            known = [each for each in known if not any(word in each[0] for word in ("WITHIN", "{order}", ")::"))]
        if not known:
            return None
        template, kinds = self.chance.choice(known)
        arguments = []
        for each in kinds:
            argument = self.value(rows, each, 1, local=True)
            if not any(isinstance(part, Ref) for part in (argument, *getattr(argument, "arguments", ()))):
                argument = self.column(rows, each)
            arguments.append(argument)
        distinct = not plain and "{distinct}" in template and self.likely(0.3)
        order: tuple[Ordered, ...] = ()
        if "{order}" in template:
            extra = Ordered(
                self.column(rows, self.ordered_kind(rows)), self.likely(0.5), self.chance.choice(("", "FIRST"))
            )
            own = Ordered(arguments[0], self.likely(0.4), self.chance.choice(("", "", "LAST")))
            order = (own,) if distinct or self.likely(0.6) or isinstance(extra.value, Literal) else (extra, own)
        condition = self.boolean(rows, 1, local=True) if self.likely(0.2) else None
        return Aggregate(kind, template, tuple(arguments), distinct, order, condition)

    def window(self, scope: Scope, kind: str) -> Expression:
        """A window function of the kind over the level's rows."""
        if any(each.kind == "any" for each in scope.keys) or not scope.keys:
            return self.value(scope, kind, 1)
        partition = tuple(self.column(scope, self.ordered_kind(scope)) for _ in range(self.chance.choice((0, 1, 1, 2))))
        order = tuple(self._sorted(scope) for _ in range(self.chance.choice((0, 1, 1, 2))))
        known = templates.WINDOWS.get(kind, [])
        aggregate = self.aggregate(scope, kind, plain=True) if self.likely(0.4) or not known else None
        if aggregate is not None:
            mode = self.chance.choice(("ROWS", "ROWS", "RANGE", "GROUPS" if self.spicy else "RANGE", ""))
            keys = scope.keys if (mode in {"ROWS", ""} and self.likely(0.9)) or not order else ()
            if mode == "ROWS":
                keys = scope.keys
            return Window(kind, aggregate, partition, order, keys, self.frame(mode, order, keys))
        if not known:
            return self.value(scope, kind, 1)
        template, kinds, need = self.chance.choice(known)
        arguments = tuple(self.column(scope, each) for each in kinds)
        frame = self.frame(self.chance.choice(("ROWS", "ROWS", "")), order, scope.keys) if need == "frame" else None
        keys = () if need == "plain" and order else scope.keys
        return Window(kind, Apply(kind, template, arguments), partition, order, keys, frame)

    def _sorted(self, scope: Scope) -> Ordered:
        column = self.column(scope, self.ordered_kind(scope))
        return Ordered(column, self.likely(0.4), self.chance.choice(("", "", "FIRST", "LAST")))

    def frame(self, mode: str, order: tuple[Ordered, ...], keys: tuple[Expression, ...]) -> Frame | None:
        if not mode:
            return None
        start = self.chance.choice(_STARTS)
        end = self.chance.choice([each for each in _ENDS if _PLACES[each] >= _PLACES[start]])
        if mode == "RANGE":
            distances = DISTANCES.get(order[0].value.kind) if self.spicy and len(order) == 1 and not keys else None
            if distances is not None:
                near, far = distances
                start, end = start.replace("1", near).replace("2", far), end.replace("1", near).replace("2", far)
            else:
                start, end = "UNBOUNDED PRECEDING", self.chance.choice(("CURRENT ROW", "UNBOUNDED FOLLOWING"))
                if self.likely(0.3):
                    start = "CURRENT ROW"
        exclude = self.chance.choice(_EXCLUSIONS) if self.spicy and self.likely(0.4) else ""
        return Frame(mode, start, end, exclude)

    def window_over_groups(self, grouped: Scope, keys: list[Expression]) -> Expression:
        """An aggregate of an aggregate, in the order of all keys."""
        assert grouped.rows is not None
        count = Aggregate("int8", "sum(count(*))", ())
        order = tuple(Ordered(key, self.likely(0.3)) for key in keys)
        return Window("numeric", count, (), order)
