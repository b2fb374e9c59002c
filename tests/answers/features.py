"""Features that queries must have: by name, a pattern of their SQL, or a condition on their tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tests.answers.expressions import Case, Exists, Expression, In, Ordered, Quantified, Ref, Scalar, When
from tests.answers.queries import (
    Called,
    Derived,
    DistinctOn,
    Grouping,
    Join,
    Order,
    Query,
    Row,
    Select,
    SetOperation,
    TableItem,
    Target,
)
from tests.answers.tree import Node, parts, walk

Shows = Callable[[Query], bool]


def is_correlated(query: Node) -> bool:
    """Whether it names a column of something that is not in it."""
    inside = {each.alias for each in walk(query) if isinstance(each, TableItem | Derived | Called)}
    return any(isinstance(each, Ref) and each.alias and each.alias not in inside for each in walk(query))


def subqueries(query: Node) -> list[Query]:
    return [each for each in walk(query) if isinstance(each, Query) and each is not query]


def has_correlated(query: Query) -> bool:
    """Whether it has a correlated subquery or LATERAL."""
    return any(is_correlated(each) for each in subqueries(query))


def _levels(query: Node) -> int:
    """How many correlated subqueries are nested."""
    below = max((_levels(part) for part in parts(query)), default=0)
    return below + (isinstance(query, Query) and is_correlated(query))


def _below(node_type: type[Node], field: str) -> Shows:
    """A subquery of an expression somewhere in a field of nodes of a type."""

    def shows(query: Query) -> bool:
        return any(
            isinstance(inner, Scalar | Exists | In | Quantified)
            for each in walk(query)
            if isinstance(each, node_type)
            for part in _field(each, field)
            for inner in walk(part)
        )

    return shows


def _field(node: Node, name: str) -> tuple[Node, ...]:
    value = getattr(node, name)
    return value if isinstance(value, tuple) else (value,) if isinstance(value, Node) else ()


def _scalar(condition: Callable[[Select], bool]) -> Shows:
    return lambda query: any(
        isinstance(each, Scalar) and isinstance(each.query, Select) and condition(each.query) for each in walk(query)
    )


def _any(condition: Callable[[Node], bool]) -> Shows:
    return lambda query: any(condition(each) for each in walk(query))


def _text(pattern: str) -> Shows:
    found = re.compile(pattern)
    return lambda query: found.search(query.sql()) is not None


def _correlated_by(pattern: str) -> Shows:
    """A condition of a subquery, of the pattern, with what is outside in it."""
    found = re.compile(pattern)

    def shows(query: Query) -> bool:
        return any(
            found.search(condition.sql()) is not None
            for each in subqueries(query)
            if isinstance(each, Select)
            for condition in each.where
            if not subqueries(condition) and _is_outside(condition, each)
        )

    return shows


def _is_outside(condition: Expression, query: Select) -> bool:
    inside = {each.alias for each in walk(query) if isinstance(each, TableItem | Derived | Called)}
    return any(isinstance(each, Ref) and each.alias and each.alias not in inside for each in walk(condition))


def _is_lateral(node: Node) -> bool:
    return isinstance(node, Join) and isinstance(node.right, Derived) and node.right.lateral


def _is_cut(node: Node) -> bool:
    return isinstance(node, Derived) and node.lateral and "LIMIT" in node.query.sql()


def _is_whole(query: Query) -> bool:
    return isinstance(query, Select) and query.grouping is not None and not query.grouping.keys


def _reads_nothing(query: Query) -> bool:
    return isinstance(query, Select) and query.source is None


def _over_nullable(query: Query) -> bool:
    """A subquery that names the side of an outer join that may be NULL."""
    nullable = {
        item.alias
        for each in walk(query)
        if isinstance(each, Join) and each.kind in {"LEFT", "FULL"}
        for item in walk(each.right)
        if isinstance(item, TableItem | Derived | Called)
    }
    return any(
        isinstance(ref, Ref) and ref.alias in nullable and is_correlated(each)
        for each in subqueries(query)
        for ref in walk(each)
    )


FEATURES: Final[dict[str, Shows]] = {
    **{f"{kind} join": _text(rf"\b{kind} JOIN") for kind in ("INNER", "LEFT", "RIGHT", "FULL", "CROSS")},
    "USING": _text(r"\bUSING \("),
    "nested join": _any(lambda each: isinstance(each, Join) and isinstance(each.left, Join)),
    "join of a join": _any(lambda each: isinstance(each, Join) and isinstance(each.right, Join)),
    "join of a join with LATERAL": _any(
        lambda each: isinstance(each, Join) and isinstance(each.right, Join)
        and any(isinstance(part, Derived) and part.lateral for part in (each.right.left, each.right.right))
    ),
    "self join": _any(
        lambda each: isinstance(each, Join) and isinstance(each.left, TableItem) and isinstance(each.right, TableItem)
        and each.left.table == each.right.table
    ),
    "scalar of several rows": _any(
        lambda each: isinstance(each, When) and isinstance(each.result, Scalar)
        and isinstance(each.result.query, Select) and each.result.query.order is None
        and each.result.query.grouping is None
    ),
    "scalar aggregate": _scalar(lambda each: each.grouping is not None),
    "scalar count": _scalar(lambda each: "count(" in each.targets[0].value.sql()),
    "scalar with LIMIT": _scalar(lambda each: each.order is not None),
    "scalar with OFFSET": _scalar(lambda each: each.order is not None and "OFFSET" in each.order.clause(1)),
    "scalar DISTINCT": _scalar(lambda each: each.distinct),
    "scalar set operation": _any(lambda each: isinstance(each, Scalar) and isinstance(each.query, SetOperation)),
    "EXISTS": _text(r"\(EXISTS"),
    "NOT EXISTS": _text(r"NOT EXISTS"),
    "IN": _any(lambda each: isinstance(each, In) and not each.negated),
    "NOT IN": _any(lambda each: isinstance(each, In) and each.negated),
    "row IN": _any(lambda each: isinstance(each, In) and len(each.values) > 1),
    "ANY": _any(lambda each: isinstance(each, Quantified) and each.word == "ANY"),
    "ALL": _any(lambda each: isinstance(each, Quantified) and each.word == "ALL"),
    "ARRAY(SELECT)": _text(r"ARRAY\(SELECT"),
    "subquery in WHERE": _below(Select, "where"),
    "subquery in HAVING": _below(Select, "having"),
    "subquery in SELECT": _below(Target, "value"),
    "subquery in ON": _below(Join, "on"),
    "subquery in ORDER BY": _below(Order, "items"),
    "subquery in GROUP BY": _below(Grouping, "keys"),
    "subquery in CASE": lambda query: _below(When, "condition")(query) or _below(Case, "whens")(query),
    "subquery in VALUES": _below(Row, "values"),
    "correlated by =": _correlated_by(r" = "),
    "correlated by <": _correlated_by(r" < "),
    "correlated by <>": _correlated_by(r" <> "),
    "correlated by IS NOT DISTINCT FROM": _correlated_by(r"IS NOT DISTINCT FROM"),
    "correlated by a sum": _correlated_by(r" \+ 1"),
    "correlated by coalesce": _correlated_by(r"coalesce"),
    "correlated by a cast": _correlated_by(r"\)::(int8|numeric)"),
    "correlated over nullable sides": _over_nullable,
    "nested correlation": lambda query: _levels(query) >= 2,
    "LATERAL, inner": _any(lambda each: _is_lateral(each) and each.kind in {"INNER", "CROSS"}),  # type: ignore[attr-defined]
    "LATERAL, left": _any(lambda each: _is_lateral(each) and each.kind == "LEFT"),  # type: ignore[attr-defined]
    "LATERAL with LIMIT": _any(_is_cut),
    "LATERAL of one group": _any(lambda each: _is_lateral(each) and _is_whole(each.right.query)),  # type: ignore[attr-defined]
    "LATERAL without FROM": _any(lambda each: _is_lateral(each) and _reads_nothing(each.right.query)),  # type: ignore[attr-defined]
    "LATERAL, with a condition": _any(lambda each: _is_lateral(each) and bool(each.on)),  # type: ignore[attr-defined]
    "ROLLUP": _text(r"ROLLUP"),
    "CUBE": _text(r"CUBE"),
    "GROUPING SETS": _text(r"GROUPING SETS"),
    "keys that mean the same": _text(r"(ROLLUP|CUBE|SETS)[^;]*\((\S+) % 99 \+ (\S+) % 99\)[^;]*\(\3 % 99 \+ \2 % 99\)"),
    "GROUPING()": _text(r"grouping\("),
    "HAVING": _text(r"HAVING"),
    "FILTER": _text(r"FILTER \(WHERE"),
    "aggregate DISTINCT": _text(r"(count|sum|avg|array_agg)\(DISTINCT"),
    "any_value ORDER BY": _text(r"any_value\([^()]*ORDER BY"),
    "aggregate ORDER BY": _text(r"(array_agg|string_agg)\([^()]*ORDER BY"),
    "ordered-set aggregate": _text(r"WITHIN GROUP"),
    **{f"frame in {mode}": _text(rf"{mode} BETWEEN") for mode in ("ROWS", "RANGE", "GROUPS")},
    **{f"EXCLUDE {what}": _text(f"EXCLUDE {what}") for what in ("CURRENT ROW", "GROUP", "TIES", "NO OTHERS")},
    "RANGE with an offset": _text(r"RANGE BETWEEN \d"),
    **{function: _text(rf"\b{function}\(") for function in (
        "row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "first_value",
        "last_value", "nth_value",
    )},
    "window over groups": _text(r"sum\(count\(\*\)\) OVER"),
    **{word: _text(rf"\) {word} \(") for word in (
        "UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL",
    )},
    "WITH": _text(r"^WITH w1"),
    "WITH RECURSIVE": _text(r"^WITH RECURSIVE"),
    "MATERIALIZED": _text(r"AS MATERIALIZED"),
    "DISTINCT": _text(r"^SELECT DISTINCT "),
    "DISTINCT ON": _any(lambda each: isinstance(each, DistinctOn)),
    "NULLS FIRST": _any(lambda each: isinstance(each, Ordered) and each.nulls == "FIRST"),
    "WITH TIES": _text(r"WITH TIES"),
    "cast": _text(r"::(int|numeric|text|date|timestamp|float)"),
    "numeric with typmod": _text(r"::numeric\(10,1\)"),
    "dates": _text(r"date_trunc"),
    "time zones": _text(r"AT TIME ZONE"),
    "text functions": _text(r"\b(upper|substr|replace|lpad|split_part)\("),
    "regular expressions": _text(r" ~ "),
    "LIKE": _text(r" LIKE "),
    "arrays": _text(r"array_append|ARRAY\["),
    "jsonb": _text(r" ->> | -> "),
    "enumeration": _text(r"::mood|c_mood"),
    "grouping sets beside keys": _text(r"GROUP BY [^()]*, ROLLUP"),
    "grouping sets crossed": _text(r"CUBE \([^)]*\), ROLLUP"),
    "grouping sets nested": _text(r"GROUPING SETS \(ROLLUP"),
    "GROUP BY DISTINCT": _text(r"GROUP BY DISTINCT"),
    "GROUPING() of several": _text(r"grouping\([^()]*, "),
    "RANGE with an interval": _text(r"RANGE BETWEEN interval"),
    "list in a window": _text(r"array_agg\([^)]*\) OVER"),
    "three of a set operation": _any(
        lambda each: isinstance(each, SetOperation) and isinstance(each.left, SetOperation)
    ),
    "VALUES in a set operation": _text(r"(UNION|INTERSECT|EXCEPT)( ALL)? \(VALUES"),
    "WITH of a subquery": _text(r"WITH v1"),
    "SEARCH": _text(r"SEARCH (DEPTH|BREADTH) FIRST"),
    "CYCLE": _text(r"CYCLE c2 SET"),
    "function in FROM": _any(lambda each: isinstance(each, Called)),
    "function in FROM, left": _text(r"LEFT JOIN (generate_series|unnest)\("),
    "ROWS FROM": _text(r"ROWS FROM"),
    "rows of a jsonb": _text(r"jsonb_(array_elements|each|object_keys|path_query)\([^)]*\)"),
    "json_table": _text(r"json_table\("),
    "json_value": _text(r"json_(value|exists|query)\("),
    "jsonpath": _text(r"jsonb_path_|@[?@] '"),
    "slices": _text(r"\[(1:2|2:)\]"),
    "LATERAL VALUES": _text(r"LATERAL \(VALUES"),
    "LATERAL WITH": _text(r"LATERAL \(WITH"),
    "hypothetical-set aggregate": _text(r"rank\(\d\) WITHIN GROUP"),
    "age": _text(r"\bage\("),
    "IS DISTINCT FROM": _text(r"IS DISTINCT FROM"),
    "BETWEEN": _text(r"[^SE] BETWEEN"),
    "intervals": _text(r"c_interval"),
    "uuid": _text(r"c_uuid"),
    "bytea": _text(r"c_bytea"),
    "time": _text(r"c_time\b"),
    "char": _text(r"c_char"),
    "view": _text(r"\bview1 AS"),
    "view over a view": _text(r"\bview2 AS"),
    "generated column": _text(r"\.made\b"),
    "range": _text(r"c_int4range|int4range\("),
    "composite": _text(r"c_pair|::pair"),
    "function of a user": _text(r"\b(doubled|tagged|clamped)\("),
    "function of a user in FROM": _text(r"JOIN (numbers|split)\("),
    "aggregate of a user": _text(r"longest\("),
}  # fmt: skip
