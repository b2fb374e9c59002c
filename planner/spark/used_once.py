"""Large operands are written once, even if the result uses them several times.

Much of PostgreSQL's arithmetic uses an operand twice: to check it, and to compute with it. Written twice at each level,
a few dozen nested calls would be more text than any machine holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.spark import numerics
from planner.spark.builders import Expression, let, struct, variable
from planner.spark.values import Value

# Nodes of an operand that may stand more than once.
_NODES_MAX: Final = 60


def used_once(
    fresh: Callable[[str], str], operands: Sequence[Value], build: Callable[[tuple[Value, ...]], Value]
) -> Value:
    """Return the result of `build` for the operands.

    Large ones that it writes several times are evaluated before, and stand in it by a name of `fresh`.
    """
    operands = tuple(operands)
    result = build(operands)
    wholes = [_whole(operand) for operand in operands]
    written = (result.sql, *([] if _has_one_scale(result) else [numerics.display_of(result)]))
    repeated = {
        place: whole
        for place, whole in enumerate(wholes)
        if whole is not None and _is_large(whole) and _is_repeated(whole, written)
    }
    if not repeated:
        return result
    name = fresh("v")
    named = list(operands)
    for place in repeated:
        named[place] = _read_from(operands[place], f"{name}.a{place}")
    result = build(tuple(named))
    given = struct(**{f"a{place}": whole for place, whole in repeated.items()})
    if _has_one_scale(result):
        return replace(result, sql=let(name, given, result.sql))
    sql, held = numerics.unpacked(let(name, given, numerics.packed(result)), result.held)
    return replace(result, sql=sql, decimal=held)


def named(fresh: Callable[[str], str], value: Value) -> tuple[Value, Callable[[Expression], Expression]]:
    """Return the value by a name, and a function that defines the name around an expression.

    For numerics of several scales each use has two parts. It is for values that must not be evaluated outside of that
    expression.
    """
    whole = None if _has_one_scale(value) else _whole(value)
    if whole is None or not _is_large(whole):
        return value, lambda expression: expression
    name = fresh("v")
    return _read_from(value, name), lambda expression: let(name, whole, expression)


def _has_one_scale(value: Value) -> bool:
    return value.decimal is None or not isinstance(value.decimal.display, Expression)


def _whole(operand: Value) -> Expression | None:
    """Return what is evaluated for the operand: for numerics of several scales, the struct of both parts."""
    if _has_one_scale(operand):
        return operand.sql
    return operand.pair


def _read_from(operand: Value, name: str) -> Value:
    if _has_one_scale(operand):
        return replace(operand, sql=variable(name))
    display = variable(f"{name}.s")
    return replace(operand, sql=variable(f"{name}.v"), decimal=replace(operand.held, display=display))


def _is_large(expression: Expression) -> bool:
    pending = [expression]
    for _ in range(_NODES_MAX):
        if not pending:
            return False
        pending.extend(pending.pop().iter_expressions())
    return True


def _is_repeated(operand: Expression, written: Sequence[Expression]) -> bool:
    found = 0
    pending = list(written)
    while pending:
        node = pending.pop()
        if node is operand:
            found += 1
            if found > 1:
                return True
        else:
            pending.extend(node.iter_expressions())
    return False
