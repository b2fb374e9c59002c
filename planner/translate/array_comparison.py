"""x op ANY (array) and x op ALL (array), IN and NOT IN among them, also with very many elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from catalog.datatypes import BOOL, BPCHAR, NUMERIC, element_type, is_enumeration
from catalog.errors import unsupported
from planner.functions import casts, registry
from planner.functions.comparison import comparable
from planner.spark.builders import Expression, and_, call, is_simple, lambda_, not_, operand, or_, variable
from planner.spark.evaluation import null_after
from planner.spark.literals import literal
from planner.spark.values import Value, null_value
from planner.tree import datum
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from planner.translate.expressions import Translator


_PARAM_EXTERN: Final = 0


def array_operator(translator: Translator, node: Node) -> Value:
    """Translate x op ANY (array), x op ALL (array)."""
    from planner.translate import sublinks  # noqa: PLC0415

    over = sublinks.over_subquery(node)
    if over is not node:
        return sublinks.as_value(translator, over)
    signature = translator.context.builtins.signature(node.opfuncid)
    translator.check_collation(node.inputcollid)
    left = translator.value(node.args[0])
    items = array_items(translator, node.args[1])
    if items is not None:
        return _compared(translator, node, signature, left, items)
    array = translator.value(node.args[1])
    element = element_type(array.type_oid)
    if element is None or element.oid in (NUMERIC, BPCHAR):
        raise unsupported(f"{signature} with ANY or ALL of an array that is not constant")
    if not is_simple(left.sql):
        raise unsupported("ANY or ALL of an array with a computed left side")
    compared_with = translator.apply(signature, BOOL, left, Value(variable("a"), element.oid)).sql
    name = "exists" if node.useOr else "forall"
    return Value(call(name, array.sql, lambda_("a", compared_with)), BOOL)


def _compared(translator: Translator, node: Node, signature: str, left: Value, items: list[Value]) -> Value:
    """Compare with each of the elements, which are known."""
    if not items:
        return literal(not node.useOr, BOOL)
    listed = registry.EQUALITIES if node.useOr else registry.INEQUALITIES
    left_is_null, all_are_null = left.constant is None, all(item.constant is None for item in items)
    if left_is_null or all_are_null:
        computed = [value.sql for value in (left, *items) if not value.is_constant]
        return Value(null_after(computed, "BOOLEAN"), BOOL) if computed else null_value(BOOL)
    constant = signature in listed and left.type_oid != BPCHAR and all(item.is_constant for item in items)
    first = translator.apply(signature, BOOL, left, items[0]).sql
    if constant and len(items) > 1:
        among = exp.In(this=operand(comparable(left)), expressions=[comparable(item) for item in items])
        return Value(among if node.useOr else not_(among), BOOL)
    parts: list[Expression] = [first, *(translator.apply(signature, BOOL, left, item).sql for item in items[1:])]
    return Value(exp.Paren(this=or_(*parts) if node.useOr else and_(*parts)), BOOL)


def array_items(translator: Translator, node: Node) -> list[Value] | None:
    """Return the elements of an array if each is known by itself; None if not."""
    if node.type == "ARRAYEXPR" and not node.multidims:
        return translator.values(node.elements)
    if node.type == "CONST":
        element = element_type(node.consttype)
        if node.constisnull or element is None:
            return None
        return [literal(item, element.oid) for item in datum.read(node.consttype, node.constvalue)]
    if node.type == "PARAM":
        return _items_of_parameter(translator, node)
    if node.type in ("RELABELTYPE", "ARRAYCOERCEEXPR"):
        items = array_items(translator, node.arg)
        if items is None:
            return None
        if node.type == "RELABELTYPE":
            element = element_type(node.resulttype)
            return None if element is None else [casts.relabelled(item, element.oid, -1) for item in items]
        return [translator.coerced_element(item, node.elemexpr) for item in items]
    return None


def _items_of_parameter(translator: Translator, node: Node) -> list[Value] | None:
    if node.paramkind != _PARAM_EXTERN:
        return None
    element = element_type(node.paramtype)
    text = translator.parameter_text(node)
    if element is None or is_enumeration(element.oid) or text is None:
        return None
    return [literal(item, element.oid) for item in datum.read_text(node.paramtype, text)]
