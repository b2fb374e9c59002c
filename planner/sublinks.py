"""Subqueries in expressions: EXISTS, IN, ANY, ALL, scalar and ARRAY.

Spark's IN with a subquery keeps PostgreSQL's NULLs only as a filter's conjunct (`in_filter`, `negated_in_filter`);
elsewhere it answers false for NULL, so as a value it is put together from EXISTS (`as_value`).
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from catalog.datatypes import BOOL, NUMERIC, element_type
from catalog.errors import unsupported
from planner import numerics, query, selected
from planner.expressions import PARAM_SUBLINK, Translator
from planner.functions import registry
from planner.functions.comparison import comparable
from planner.nodes import Node, walk
from planner.selected import Selected
from planner.spark import Expression, boolean, call, case, is_null, not_, operand, raw, struct
from planner.values import Value

EXISTS, ALL, ANY, ROWCOMPARE, SCALAR, MULTIEXPR, ARRAY, CTE = range(8)  # SubLinkType of primnodes.h
_REFUSED: Final = {ROWCOMPARE: "a row compared with a subquery", MULTIEXPR: "SET (…) = (SELECT …)",
                   CTE: "this subquery"}  # fmt: skip


def over_subquery(node: Node) -> Node:
    """`x op ANY (ARRAY(SELECT …))` as `x op ANY (SELECT …)`, which is the same and may become a join; ALL too."""
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
    """The sublink where its NULL matters."""
    kind = node.subLinkType
    if kind in _REFUSED:
        raise unsupported(_REFUSED[kind])
    inner = _inner(translator, node)
    if kind == EXISTS:
        return Value(_exists(inner.query), BOOL)
    if kind == SCALAR:
        return _scalar(inner)
    if kind == ARRAY:
        return _array(translator, inner, node)
    return Value(_quantified(translator, node, inner), BOOL)


def in_filter(translator: Translator, node: Node) -> Expression:
    """The sublink where NULL counts as false, in no negation."""
    kind = node.subLinkType
    if kind == ANY:
        inner = _inner(translator, node)
        return _member(translator, node, inner) or _some(translator, node, inner)
    if kind == ALL:
        # True where no row makes the comparison false or NULL.
        inner = _inner(translator, node)
        alias = translator.statement.fresh("r")
        compared = _compared(translator, node, inner, alias)
        failing = not_(exp.Paren(this=exp.Is(this=operand(compared), expression=boolean(True))))
        return not_(_exists(selected.select([raw("1")], inner.derived(alias), failing)))
    return as_value(translator, node).sql


def negated_in_filter(translator: Translator, node: Node) -> Expression:
    """NOT of the sublink, as a conjunct of a filter."""
    kind = node.subLinkType
    if kind == ANY:
        inner = _inner(translator, node)
        member = _member(translator, node, inner)
        if member is not None:
            return not_(exp.Paren(this=member))
        alias = translator.statement.fresh("r")
        compared = _compared(translator, node, inner, alias)
        possible = not_(exp.Paren(this=exp.Is(this=operand(compared), expression=boolean(False))))
        return not_(_exists(selected.select([raw("1")], inner.derived(alias), possible)))
    return not_(as_value(translator, node).sql)


def _inner(translator: Translator, node: Node) -> Selected:
    if translator.scope.grouping is None and _is_group_bound(node):
        raise unsupported("an aggregate of an outer query")
    return query.select(translator.statement, node.subselect, translator.scope)


def _is_group_bound(node: Node) -> bool:
    return any(item.type == "AGGREF" and item.agglevelsup for item in walk(node.subselect))


def _exists(inner: Expression) -> Expression:
    return exp.Exists(this=inner)


def _scalar(inner: Selected) -> Value:
    output = inner.outputs[0]
    value = exp.Subquery(this=inner.query)
    if output.held is None or not output.varies:
        return Value(value, output.type_oid, output.typmod, output.held)
    # Written twice where both parts are used; Spark computes equal subqueries once.
    sql, held = numerics.unpacked(value, output.held)
    return Value(sql, output.type_oid, output.typmod, held)


def _array(translator: Translator, inner: Selected, node: Node) -> Value:
    """ARRAY(SELECT …): the subquery's order is kept by collecting it in one aggregate."""
    output = inner.outputs[0]
    if output.type_oid == NUMERIC:
        raise unsupported("ARRAY(SELECT …) of numeric")
    builtins = translator.context.builtins
    found = builtins.types.get(output.type_oid)
    if found is None or element_type(found.array) is None:
        raise unsupported(f"ARRAY(SELECT …) of {builtins.type_name(output.type_oid)}")
    if node.subselect.sortClause:
        raise unsupported("ARRAY(SELECT … ORDER BY …)")
    alias = translator.statement.fresh("r")
    listed = call("collect_list", struct(x=exp.column(output.name, table=alias)))
    plain = call("transform", listed, raw("e -> e.x"))
    return Value(exp.Subquery(this=selected.select([plain], inner.derived(alias))), found.array)


def _operators(node: Node) -> list[Node] | None:
    """The comparisons of the test: one, or several joined by AND (a row)."""
    test = node.testexpr
    if test.type == "OPEXPR":
        return [test]
    if test.type == "BOOLEXPR" and test.boolop == "and" and all(part.type == "OPEXPR" for part in test.args):
        return list(test.args)
    return None


def _member(translator: Translator, node: Node, inner: Selected) -> Expression | None:
    """`x IN (SELECT …)` in Spark's own form, where the test is an equality of like things; otherwise None."""
    operators = _operators(node)
    if operators is None:
        return None
    alias = translator.statement.fresh("r")
    columns = inner.columns(alias)
    substitutes = dict(enumerate(columns, 1))
    lefts, rights = [], []
    for operator in operators:
        signature = translator.context.builtins.signature(operator.opfuncid)
        if signature not in registry.EQUALITIES or signature.startswith(("date_eq_t", "timestamp")):
            return None
        translator.check_collation(operator.inputcollid)
        left, right = operator.args
        if any(item.type == "PARAM" and item.paramkind == PARAM_SUBLINK for item in walk(left)):
            return None
        lefts.append(comparable(translator.value(left)))
        rights.append(comparable(Translator(translator.scope, substitutes).value(right)))
    source = selected.select(
        [exp.alias_(right, f"{alias}_{number}") for number, right in enumerate(rights)], inner.derived(alias)
    )
    left_side = operand(lefts[0]) if len(lefts) == 1 else exp.Tuple(expressions=lefts)
    return exp.In(this=left_side, query=exp.Subquery(this=source))


def _compared(translator: Translator, node: Node, inner: Selected, alias: str) -> Expression:
    """The test, with the subquery's columns read under the alias."""
    substitutes = dict(enumerate(inner.columns(alias), 1))
    return Translator(translator.scope, substitutes).value(node.testexpr).sql


def _some(translator: Translator, node: Node, inner: Selected) -> Expression:
    alias = translator.statement.fresh("r")
    compared = _compared(translator, node, inner, alias)
    return _exists(selected.select([raw("1")], inner.derived(alias), compared))


def _quantified(translator: Translator, node: Node, inner: Selected) -> Expression:
    """ANY: true if some comparison is true, else NULL if some is NULL, else false. ALL: the mirror image."""
    alias = translator.statement.fresh("r")
    compared = _compared(translator, node, inner, alias)
    is_any = node.subLinkType == ANY
    decisive = compared if is_any else not_(exp.Paren(this=compared))
    decided = _exists(selected.select([raw("1")], inner.derived(alias), decisive))
    unknown = _exists(selected.select([raw("1")], inner.derived(alias), is_null(exp.Paren(this=compared))))
    return case((decided, boolean(is_any)), (unknown, raw("CAST(NULL AS BOOLEAN)")), default=boolean(not is_any))
