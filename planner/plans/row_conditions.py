"""Conditions of WHERE that Arrow decides as PostgreSQL does: comparisons of columns with constants, by an allow-list
of operators and types, and LIKE where its pattern is a text with % at its ends alone, with AND and OR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from catalog.datatypes import (
    ANYENUM,
    BOOL,
    BPCHAR,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    kind_of,
)
from catalog.errors import SluiceError
from catalog.model import Column
from planner.spark.plan import Operator
from planner.spark.values import MISSING
from planner.translate.expressions import Translator
from planner.translate.scan_predicates import (
    COMPARISONS,
    SUFFIXES,
    Compared,
    as_kept,
    compared,
    constant_of,
    constant_side,
    listed_constants,
)
from planner.translate.scope import Scope
from planner.tree.alternatives import alternatives
from planner.tree.nodes import Node
from storage.parquet.row_conditions import is_decided
from storage.plan import ColumnCondition, Comparison, Condition, Contains, Either, Unlisted

_FLOATING: Final[dict[str, Operator]] = {
    f"{name}{suffix}({arguments})": operator
    for name, arguments in (
        ("float4", "float4,float4"), ("float8", "float8,float8"), ("float48", "float4,float8"),
        ("float84", "float8,float4"),
    )
    for suffix, operator in SUFFIXES.items()
}  # fmt: skip
_OPERATORS: Final[dict[str, Operator]] = {**COMPARISONS, **_FLOATING}
# The signatures of <> for which there is one of =.
_UNEQUAL: Final = frozenset(
    f"{name.removesuffix('eq')}ne({arguments}"
    for name, _, arguments in (
        signature.partition("(") for signature, operator in _OPERATORS.items() if operator == "="
    )
    if name.endswith("eq")
)
_INTEGERS: Final = frozenset({INT2, INT4, INT8})
_STRINGS: Final = frozenset({TEXT, VARCHAR})
# The types of columns, by an argument of a signature.
_TYPES: Final[Mapping[str, frozenset[int]]] = {
    "int2": _INTEGERS, "int4": _INTEGERS, "int8": _INTEGERS, "numeric": frozenset({NUMERIC}),
    "float4": frozenset({FLOAT4}), "float8": frozenset({FLOAT8}), "bool": frozenset({BOOL}),
    "text": _STRINGS, "name": frozenset(), "bpchar": frozenset({BPCHAR}), "bytea": frozenset({BYTEA}),
    "uuid": frozenset({UUID}), "date": frozenset({DATE}), "time": frozenset({TIME}),
    "timestamp": frozenset({TIMESTAMP}), "timestamptz": frozenset({TIMESTAMPTZ}), "anyenum": frozenset({ANYENUM}),
}  # fmt: skip
# LIKE on texts, and whether it is negated.
_LIKE: Final = {"textlike(text,text)": False, "textnlike(text,text)": True}
_SPECIAL: Final = ("%", "_", "\\")
_REALS: Final = ["float4", "float4"]
_LENGTH_HEADER: Final = 4  # of a bpchar's typmod
# Conditions that nest deeper are left to the engines: filters of batches call themselves for each level.
_DEPTH_MAX: Final = 20


class RowConditions:
    """The conditions of a level that reads one entry of FROM, whose `columns` are those of a table, by their place."""

    def __init__(self, scope: Scope, entry: int, columns: Mapping[int, Column]) -> None:
        self._scope = scope
        self._entry = entry
        self._columns = columns

    def of(self, node: Node, depth: int = 0) -> tuple[Condition, ...] | None:
        """Return what rows must meet for the condition to be true of them; None if Arrow cannot tell."""
        if node.type == "BOOLEXPR" and node.boolop in ("and", "or"):
            if depth == _DEPTH_MAX:
                return None
            parts = [self.of(part, depth + 1) for part in alternatives(node)]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            return sum(known, ()) if node.boolop == "and" else (Either(tuple(known)),)
        found = self._comparison(node) or self._unlisted(node) or self._like(node)
        return None if found is None or not is_decided(self._column(found.attnum), found) else (found,)

    def _comparison(self, node: Node) -> Comparison | None:
        found = compared(self._scope, node, _OPERATORS)
        column = None if found is None else self._compared_column(node, found)
        if found is None or column is None:
            return None
        return Comparison(column.attnum, found.operator, self._constants(node, column, found.values))

    def _unlisted(self, node: Node) -> Comparison | Unlisted | None:
        """Return a condition of <> and NOT IN."""
        if node.type not in ("OPEXPR", "SCALARARRAYOPEXPR") or self._signature(node) not in _UNEQUAL:
            return None
        if node.type == "OPEXPR":
            sides = constant_side(node)
            constant = MISSING if sides is None else constant_of(self._scope, sides[1])
            if sides is None or constant is MISSING:
                return None
            tested, values = sides[0], [constant]
        else:
            listed = None if node.useOr else listed_constants(self._scope, node)
            if not listed:
                return None
            tested, values = node.args[0], listed
        column = self._compared_column(node, Compared(tested, "in", ()))
        if column is None:
            return None
        if None in values:  # never true
            return Comparison(column.attnum, "in", ())
        return Unlisted(column.attnum, self._constants(node, column, tuple(values)))

    def _like(self, node: Node) -> ColumnCondition | None:
        """Return a condition of LIKE and NOT LIKE."""
        negated = _LIKE.get(self._signature(node)) if node.type == "OPEXPR" else None
        column = None if negated is None else self._compared_column(node, Compared(node.args[0], "in", ()))
        if column is None or negated is None:
            return None
        pattern = constant_of(self._scope, node.args[1])
        text = pattern.strip("%") if isinstance(pattern, str) else None
        if text is None or any(special in text for special in _SPECIAL):
            return None
        starts, ends = not pattern.startswith("%"), not pattern.endswith("%")
        if not text and pattern:  # any text, or with NOT none
            return Comparison(column.attnum, "in", ()) if negated else Comparison(column.attnum, "is not null")
        if starts and ends:
            return Unlisted(column.attnum, (text,)) if negated else Comparison(column.attnum, "=", (text,))
        return Contains(column.attnum, text, "start" if starts else "end" if ends else "anywhere", negated)

    def _compared_column(self, node: Node, found: Compared) -> Column | None:
        """Return the column that a condition compares, if it has the type that the operator compares."""
        tested = found.node
        while tested.type == "RELABELTYPE":
            tested = tested.arg
        if tested.type != "VAR" or tested.varno != self._entry or tested.varlevelsup:
            return None
        column = self._columns.get(tested.varattno)
        if column is None or node.type not in ("OPEXPR", "SCALARARRAYOPEXPR"):
            return column
        try:
            Translator(self._scope).check_collation(node.inputcollid)
        except SluiceError:
            return None
        arguments = _arguments(self._signature(node))
        if not any(kind_of(column.type_oid) in _TYPES[name] for name in arguments):
            return None
        if column.type_oid == FLOAT8 and "float4" in arguments:
            return None  # the constant may be a text of a real, which names another number
        return None if column.type_oid == BPCHAR and column.typmod <= _LENGTH_HEADER else column

    def _constants(self, node: Node, column: Column, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return constants as the column has them."""
        if node.type in ("OPEXPR", "SCALARARRAYOPEXPR") and _arguments(self._signature(node)) == _REALS:
            return tuple(float(np.float32(value)) for value in values)
        return as_kept(column, values)

    def _signature(self, node: Node) -> str:
        signature: str = self._scope.statement.context.builtins.signature(node.opfuncid)
        return signature

    def _column(self, attnum: int) -> Column:
        return next(column for column in self._columns.values() if column.attnum == attnum)


def _arguments(signature: str) -> list[str]:
    """Return the names of the types that a function takes."""
    return signature.partition("(")[2].rstrip(")").split(",")
