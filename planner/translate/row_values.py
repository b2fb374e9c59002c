"""Rows as values: ROW(…) and whole-row references, for uses of a row's fields, not of its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.datatypes import BOOL, BPCHAR, INTERVAL, RECORD
from catalog.errors import unsupported
from planner.functions import registry
from planner.functions.comparison import comparable
from planner.spark import constant_logic
from planner.spark.builders import binary, case, struct
from planner.spark.values import Value
from planner.translate.scope import RTE_CTE, RTE_RELATION, RTE_SUBQUERY, RTE_VALUES
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from planner.translate.expressions import Translator

_NULL_TEST_IS_NULL: Final = 0


def row(translator: Translator, node: Node) -> Value:
    """Translate ROW(…), for counting distinct ones: fields as they are compared. As a column it is refused by its
    type."""
    fields = translator.values(node.args)
    for field in fields:
        if field.type_oid not in registry.GROUPED_PLAINLY | {BPCHAR, INTERVAL}:
            raise unsupported(f"a row with a field of {translator.context.builtins.type_name(field.type_oid)}")
    if not fields:
        raise unsupported("a row without fields")
    return Value(struct(**{f"f{number}": comparable(field) for number, field in enumerate(fields)}), RECORD)


def null_test(translator: Translator, node: Node) -> Value:
    """Translate `row IS NULL` (all fields are) and `row IS NOT NULL` (no field is)."""
    return constant_logic.null_test(_fields(translator, node.arg), wanted=node.nulltesttype == _NULL_TEST_IS_NULL)


def _fields(translator: Translator, node: Node) -> list[Value]:
    if node.type == "ROWEXPR":
        if any(argument.type == "ROWEXPR" for argument in node.args or ()):
            raise unsupported("IS NULL of a row with rows in it")
        return translator.values(node.args)
    if node.type == "VAR" and node.varattno == 0 and not node.varreturningtype:
        entry = translator.scope.up(node.varlevelsup).entry(node.varno)
        if entry.rtekind == RTE_RELATION:
            table = translator.context.tables.get(entry.relid)
            if table is not None:
                return [translator.value(node.replaced(varattno=column.attnum, vartype=0)) for column in table.columns]
        if entry.rtekind in (RTE_SUBQUERY, RTE_VALUES, RTE_CTE):
            numbers = range(1, len(entry.eref.colnames) + 1)
            return [translator.value(node.replaced(varattno=number, vartype=0)) for number in numbers]
    raise unsupported("IS NULL of this row")


_ROW_COMPARISONS: Final = {1: ("<", "<"), 2: ("<", "<="), 4: (">", ">="), 5: (">", ">")}


def row_compare(translator: Translator, node: Node) -> Value:
    """Translate (a, b) < (c, d): ROWCOMPARE_LT 1, LE 2, GE 4, GT 5."""
    builtins = translator.context.builtins
    lefts, rights = translator.values(node.largs), translator.values(node.rargs)
    for left in lefts:
        if left.type_oid not in registry.ORDERED_PLAINLY | {BPCHAR}:
            raise unsupported(f"a row comparison of {builtins.type_name(left.type_oid)}")
    for collation in node.inputcollids:
        translator.check_collation(collation)
    kind = node.fields.get("cmptype", node.fields.get("rctype"))
    if kind not in _ROW_COMPARISONS:
        raise unsupported("this row comparison")
    strict, last = _ROW_COMPARISONS[kind]
    result = binary(last, comparable(lefts[-1]), comparable(rights[-1]))
    for left, right in reversed(list(zip(lefts[:-1], rights[:-1], strict=True))):
        one, other = comparable(left), comparable(right)
        equal = binary("=", one, other)
        # NULL where either is NULL, as PostgreSQL's row comparison stops at the first unequal pair
        result = case((equal, result), default=binary(strict, one, other))
    return Value(result, BOOL)
