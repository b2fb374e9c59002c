"""Subqueries in expressions: EXISTS, IN, ANY, ALL, scalar and ARRAY.

An uncorrelated one stays a subquery of Spark's, and so does `x IN (SELECT …)` of an equality where NULL counts as
false. Any other is joined: on the left, with at most one row for each outer row; as a conjunct of a filter, as a
semi-join or an anti-join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from sqlglot import exp

from catalog.datatypes import BOOL, INT8, NUMERIC, element_type
from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.comparison import comparable
from planner.spark import numerics, relation_output
from planner.spark.builders import (
    Expression,
    and_,
    binary,
    boolean,
    call,
    case,
    column,
    is_not_null,
    is_null,
    not_,
    operand,
    raise_error,
    raw,
    struct,
)
from planner.spark.values import Value
from planner.translate import query
from planner.translate.correlation import dependent
from planner.translate.correlation.lambdas import SEVERAL_ROWS
from planner.translate.correlation.source import Source
from planner.translate.expressions import PARAM_SUBLINK, Translator
from planner.tree import datum, query_levels
from planner.tree.nodes import Node, walk

EXISTS, ALL, ANY, ROWCOMPARE, SCALAR, MULTIEXPR, ARRAY, CTE = range(8)  # SubLinkType of primnodes.h
_REFUSED: Final = {MULTIEXPR: "SET (…) = (SELECT …)", CTE: "this subquery"}


def over_subquery(node: Node) -> Node:
    """Return `x op ANY (ARRAY(SELECT …))` as `x op ANY (SELECT …)`, which is the same and may become a join; ALL
    too."""
    if node.type != "SCALARARRAYOPEXPR":
        return node
    left, array = node.args
    if array.type != "SUBLINK" or array.subLinkType != ARRAY:
        return node
    item = Node("PARAM", {"paramkind": PARAM_SUBLINK, "paramid": 1})
    test = {"opfuncid": node.opfuncid, "opresulttype": BOOL, "opretset": False, "inputcollid": node.inputcollid}
    operator = Node("OPEXPR", {**test, "args": (left, item)})
    replaced: Node = array.replaced(subLinkType=ANY if node.useOr else ALL, testexpr=operator)
    return replaced


def as_value(translator: Translator, node: Node) -> Value:
    """Translate the sublink where its NULL matters."""
    kind = node.subLinkType
    translator.statement.is_eager |= translator.statement.branches > 0
    if kind in _REFUSED:
        raise unsupported(_REFUSED[kind])
    if kind == EXISTS:
        return Value(_exists(translator, node.subselect), BOOL)
    if kind == SCALAR:
        return _scalar(translator, node.subselect)
    if kind == ARRAY:
        return _array(translator, node.subselect)
    if kind == ROWCOMPARE:
        columns = _columns(translator, node.subselect)
        return Translator(translator.scope, dict(enumerate(columns, 1))).value(node.testexpr)
    return Value(_quantified(translator, node), BOOL)


def in_filter(translator: Translator, node: Node) -> Expression:
    """Translate the sublink where NULL counts as false, in no negation."""
    translator.statement.is_eager |= translator.statement.branches > 0
    if node.subLinkType == ANY:
        return _member(translator, node) or _marked(translator, node.subselect, node)
    return as_value(translator, node).sql


def in_conjunct(translator: Translator, node: Node, negated: bool) -> Expression | None:
    """Translate the sublink, or NOT of it, as a conjunct of a filter; None if it has become a join."""
    kind, subquery = node.subLinkType, node.subselect
    if kind == EXISTS and query_levels.is_correlated(_existing(subquery)):
        _join(translator, dependent.rows(translator, _existing(subquery), with_columns=False), not negated)
        return None
    if kind == ANY:
        member = _member(translator, node)
        if member is not None:
            return not_(exp.Paren(this=member)) if negated else member
    if kind in (ANY, ALL):
        related = dependent.rows(translator, subquery)
        wanted = (kind == ANY) is not negated
        _join(translator, related, wanted, lambda columns: _decisive(translator, node, negated, columns))
        return None
    value = as_value(translator, node).sql
    return not_(value) if negated else value


def _join(
    translator: Translator,
    related: dependent.Related,
    wanted: bool,
    test: Callable[[list[Value]], Expression] | None = None,
) -> None:
    """Keep the level's rows for which such a row exists, or none does; `test` is a further condition on its columns."""
    alias = translator.statement.fresh("r")
    conditions = [related.condition(alias), test and test(related.selected.columns(alias))]
    condition = [each for each in conditions if each is not None]
    kind = "LEFT SEMI" if wanted else "LEFT ANTI"
    _source(translator).add(related.selected.derived(alias), kind, and_(*condition) if condition else boolean(True))


def _decisive(translator: Translator, node: Node, negated: bool, columns: list[Value]) -> Expression:
    """Return the condition on a row that makes ANY true (negated: not false), or ALL not true (negated: false)."""
    compared = operand(Translator(translator.scope, dict(enumerate(columns, 1))).value(node.testexpr).sql)
    if node.subLinkType == ANY:
        return not_(exp.Paren(this=exp.Is(this=compared, expression=boolean(False)))) if negated else compared
    return not_(compared) if negated else not_(exp.Paren(this=exp.Is(this=compared, expression=boolean(True))))


def _source(translator: Translator) -> Source:
    source = translator.scope.source
    if source is None:
        raise unsupported("a correlated subquery in this place")
    return source


def _existing(node: Node) -> Node:
    """Return the subquery without parts that do not affect whether it has a row."""
    plain = not (node.setOperations is not None or node.rowMarks or node.groupingSets or node.hasTargetSRFs)
    if not plain or node.limitOffset is not None or dependent.is_whole(node):
        return node
    if node.limitCount is not None and not (node.limitCount.type == "CONST" and _is_positive(node.limitCount)):
        return node
    unneeded: dict[str, Any] = {"sortClause": None, "distinctClause": None, "limitCount": None, "hasDistinctOn": False}
    if node.havingQual is None:
        unneeded |= {"targetList": (), "hasWindowFuncs": False, "windowClause": None, "groupClause": None}
        if node.groupClause:
            unneeded |= {"hasAggs": False}
    return node.replaced(**unneeded)


def _is_positive(node: Node) -> bool:
    return not node.constisnull and int(datum.read(INT8, node.constvalue)) > 0


def _exists(translator: Translator, node: Node) -> Expression:
    existing = _existing(node)
    if query_levels.is_correlated(existing):
        return _marked(translator, existing, None)
    return exp.Exists(this=query.select(translator.statement, existing, translator.scope).query)


def _marked(translator: Translator, subquery: Node, test: Node | None) -> Expression:
    """Return a joined column: whether a row exists for the outer row, one for which the test is true."""
    lefts = [] if test is None else _lefts(translator, test)
    related = dependent.keyed(translator, subquery, lefts)
    alias, joined, mark = (translator.statement.fresh(prefix) for prefix in ("r", "m", "m"))
    passed = None if test is None else _compared(translator, test, related, alias, len(lefts))
    shown = [*related.selected.key_columns(alias), exp.alias_(boolean(True), mark)]
    marked = relation_output.select(shown, related.selected.derived(alias), passed, distinct=True)
    _join_left(translator, related, marked, joined)
    return is_not_null(column(joined, mark))


def _join_left(translator: Translator, related: dependent.Related, found: exp.Select, alias: str) -> None:
    condition = related.condition(alias) or boolean(True)
    _source(translator).add(relation_output.derived(found, alias), "LEFT", condition)


# --- scalar subqueries ---


def _scalar(translator: Translator, node: Node) -> Value:
    if query_levels.is_correlated(node):
        return _columns(translator, node)[0]
    inner = query.select(translator.statement, node, translator.scope)
    output = inner.outputs[0]
    value = exp.Subquery(this=inner.query)
    if output.held is None or not output.varies:
        return Value(value, output.type_oid, output.typmod, output.held)
    # Written twice if both parts are used; Spark computes equal subqueries once.
    sql, held = numerics.unpacked(value, output.held)
    return Value(sql, output.type_oid, output.typmod, held)


def _columns(translator: Translator, node: Node) -> list[Value]:
    """Return the columns of the subquery's one row, NULL if there is none; 21000 if there are several."""
    groups = dependent.whole_group(translator, node)
    if groups is not None:
        relation, condition, values = groups
        _source(translator).add(relation, "LEFT", condition)
        return [relation_output.without_constant(value) for value in values]
    related = _related(translator, node)
    outputs = related.selected.outputs
    joined = translator.statement.fresh("m")
    if dependent.is_whole(node) or _is_one(node):
        _source(translator).add(related.selected.derived(joined), "LEFT", related.condition(joined) or boolean(True))
        return related.selected.columns(joined)
    alias, count = translator.statement.fresh("r"), translator.statement.fresh("n")
    # The largest of a single value is that value.
    shown = [exp.alias_(call("max", column(alias, output.name)), output.name, copy=False) for output in outputs]
    counted = exp.alias_(call("count", exp.Star()), count, copy=False)
    _join_left(translator, related, _grouped(related, [*shown, counted], alias), joined)
    several = binary(">", column(joined, count), raw("1L"))
    return [
        replace(value, sql=case((several, raise_error(*SEVERAL_ROWS)), default=value.sql))
        for value in related.selected.columns(joined)
    ]


def _related(translator: Translator, node: Node) -> dependent.Related:
    """Return the subquery with its keys; an uncorrelated one has none."""
    if query_levels.is_correlated(node):
        return dependent.keyed(translator, node)
    return dependent.Related(query.select(translator.statement, node, translator.scope), lambda _: None)


def _grouped(related: dependent.Related, aggregates: list[Expression], alias: str) -> exp.Select:
    """Return aggregates of the subquery, read under the alias, for each outer row."""
    keys = related.selected.key_columns(alias)
    result = relation_output.select([*keys, *aggregates], related.selected.derived(alias))
    if keys:
        result.set("group", exp.Group(expressions=keys))
    return result


def _is_one(node: Node) -> bool:
    """Whether LIMIT leaves one row at most."""
    count = node.limitCount
    plain = count is not None and count.type == "CONST" and not node.limitOption
    return plain and not count.constisnull and int(datum.read(INT8, count.constvalue)) <= 1


def _array(translator: Translator, node: Node) -> Value:
    """Translate ARRAY(SELECT …), in no order."""
    if node.sortClause:
        raise unsupported("ARRAY(SELECT … ORDER BY …)")
    related = _related(translator, node)
    output = related.selected.outputs[0]
    if output.type_oid == NUMERIC:
        raise unsupported("ARRAY(SELECT …) of numeric")
    builtins = translator.context.builtins
    found = builtins.types.get(output.type_oid)
    if found is None or element_type(found.array) is None:
        raise unsupported(f"ARRAY(SELECT …) of {builtins.type_name(output.type_oid)}")
    alias, joined, name = (translator.statement.fresh(prefix) for prefix in ("r", "m", "a"))
    listed: Expression = call("collect_list", struct(x=exp.column(output.name, table=alias)))
    if not related.selected.keys:
        plain = call("transform", listed, raw("e -> e.x"))
        return Value(exp.Subquery(this=relation_output.select([plain], related.selected.derived(alias))), found.array)
    _join_left(translator, related, _grouped(related, [exp.alias_(listed, name, copy=False)], alias), joined)
    filled = call("coalesce", column(joined, name), raw("array()"))
    return Value(call("transform", filled, raw("e -> e.x")), found.array)


# --- ANY and ALL ---


def _operators(node: Node) -> list[Node]:
    """Return the comparisons of the test: one, or several joined by AND or OR (a row)."""
    test = node.testexpr
    if test.type == "BOOLEXPR":
        parts = list(test.args)
        if all(part.type == "OPEXPR" for part in parts):
            return parts
    if test.type == "OPEXPR":
        return [test]
    raise unsupported("this comparison with a subquery")


def _lefts(translator: Translator, node: Node) -> list[Value]:
    """Return the left sides of the comparisons."""
    lefts = [operator.args[0] for operator in _operators(node)]
    if any(item.type == "PARAM" and item.paramkind == PARAM_SUBLINK for item in walk(tuple(lefts))):
        raise unsupported("this comparison with a subquery")
    return translator.values(lefts)


def _compared(translator: Translator, node: Node, related: dependent.Related, alias: str, lefts: int) -> Expression:
    """Return the test among the subquery's rows, whose domain has the left sides as its last values."""
    assert related.domain is not None
    columns = related.selected.columns(alias)
    substitutes = dict(enumerate([*columns, *related.domain.values(alias)[-lefts:]], 1))
    operators = [
        operator.replaced(args=(_parameter(number), operator.args[1]))
        for number, operator in enumerate(_operators(node), len(columns) + 1)
    ]
    test = operators[0] if len(operators) == 1 else node.testexpr.replaced(args=tuple(operators))
    return Translator(translator.scope, substitutes).value(test).sql


def _parameter(number: int) -> Node:
    return Node("PARAM", {"paramkind": PARAM_SUBLINK, "paramid": number})


def _member(translator: Translator, node: Node) -> Expression | None:
    """Return `x IN (SELECT …)` in Spark's own form, if the test is an equality of equal types; otherwise None."""
    source = translator.scope.source
    if source is not None and source.is_pair:
        return None  # in the condition of an outer join Spark multiplies rows by it
    if query_levels.is_correlated(node.subselect) or (
        node.testexpr.type == "BOOLEXPR" and node.testexpr.boolop != "and"
    ):
        return None
    operators = _operators(node)
    for operator in operators:
        signature = translator.context.builtins.signature(operator.opfuncid)
        if signature not in registry.EQUALITIES or signature.startswith(_BETWEEN_TIMES):
            return None
        translator.check_collation(operator.inputcollid)
        if any(item.type == "PARAM" and item.paramkind == PARAM_SUBLINK for item in walk(operator.args[0])):
            return None
    inner = query.select(translator.statement, node.subselect, translator.scope)
    alias = translator.statement.fresh("r")
    substitutes = dict(enumerate(inner.columns(alias), 1))
    lefts = [comparable(translator.value(operator.args[0])) for operator in operators]
    rights = [comparable(Translator(translator.scope, substitutes).value(each.args[1])) for each in operators]
    listed = relation_output.select(
        [exp.alias_(right, f"{alias}_{number}") for number, right in enumerate(rights)], inner.derived(alias)
    )
    left_side = operand(lefts[0]) if len(lefts) == 1 else exp.Tuple(expressions=lefts)
    return exp.In(this=left_side, query=exp.Subquery(this=listed))


# Equalities of different types of dates and times, which are more than a comparison in Spark.
_BETWEEN_TIMES: Final = ("date_eq_t", "timestamp_eq_", "timestamptz_eq_")


def _quantified(translator: Translator, node: Node) -> Expression:
    """Return ANY: true if some comparison is true, else NULL if some is NULL, else false. ALL: the mirror image."""
    lefts = _lefts(translator, node)
    related = dependent.keyed(translator, node.subselect, lefts)
    alias, joined, decided, unknown = (translator.statement.fresh(prefix) for prefix in ("r", "m", "t", "u"))
    compared = exp.Paren(this=_compared(translator, node, related, alias, len(lefts)))
    is_any = node.subLinkType == ANY
    shown: list[Expression] = [
        exp.alias_(call("bool_or", compared if is_any else not_(compared)), decided, copy=False),
        exp.alias_(call("bool_or", is_null(compared)), unknown, copy=False),
    ]
    _join_left(translator, related, _grouped(related, shown, alias), joined)
    return case(
        (column(joined, decided), boolean(is_any)),
        (column(joined, unknown), raw("CAST(NULL AS BOOLEAN)")),
        default=boolean(not is_any),
    )
