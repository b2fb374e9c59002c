"""GREATEST and LEAST. A numeric result keeps the display scale of the argument that it came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from catalog.datatypes import NUMERIC
from catalog.errors import unsupported
from planner.functions import registry
from planner.spark import numerics
from planner.spark.builders import Expression, call, case, integer, is_not_null, struct
from planner.spark.used_once import named
from planner.spark.values import Value
from planner.tree.nodes import Node

if TYPE_CHECKING:
    from planner.translate.expressions import Translator


def min_max(translator: Translator, node: Node) -> Value:
    """Translate GREATEST (0) and LEAST (1): Spark's ignore NULLs too."""
    values = translator.values(node.args)
    translator.check_collation(node.inputcollid)
    name = "greatest" if node.op == 0 else "least"
    type_oid = translator.base(node.minmaxtype)
    if type_oid not in registry.ORDERED_PLAINLY:
        raise unsupported(f"{name.upper()} of {translator.context.builtins.type_name(type_oid)}")
    if len(values) == 1:
        return values[0]
    decimal = None
    if type_oid == NUMERIC:
        by_name = [named(translator.statement.fresh, value) for value in values]
        values = numerics.unified([value for value, _ in by_name])
        if not all(numerics.is_static(value) for value in values):
            within = [inside for _, inside in by_name]
            return _extreme_of_numerics([numerics.computable(value) for value in values], within, node.op == 0)
        decimal = values[0].decimal
    return Value(call(name, *(value.sql for value in values)), type_oid, -1, decimal)


def _extreme_of_numerics(
    values: Sequence[Value], within: Sequence[Callable[[Expression], Expression]], greatest: bool
) -> Value:
    """Translate GREATEST or LEAST with display scales: of equal values the first counts, NULLs do not."""
    items = [
        inside(case((is_not_null(value.sql), struct(v=value.sql, o=integer(-number if greatest else number),
                                                    s=numerics.display_of(value)))))
        for number, (value, inside) in enumerate(zip(values, within, strict=True))
    ]  # fmt: skip
    found = call("array_max" if greatest else "array_min", call("array", *items))
    pair = numerics.let_struct_of("m", found, lambda most: struct(v=most("v"), s=most("s")))
    sql, held = numerics.unpacked(pair, values[0].held)
    return Value(sql, NUMERIC, -1, held)
