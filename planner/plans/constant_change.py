"""`constant_change`: an UPDATE or DELETE of one table whose conditions Arrow decides, and which sets constants.

It may also add constants to integers, as counters do. Where its rows are few, the gateway replaces them itself.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pyarrow as pa

from catalog.datatypes import (
    BOOL,
    BYTEA,
    DATE,
    FIRST_USER_OID,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
)
from catalog.errors import SluiceError
from catalog.model import Column, Table
from planner.plans.change_plan import CHANGED, DELETED
from planner.plans.stored_scan import MORE_THAN_ROWS, is_plain, met_conditions
from planner.spark.plan import Context
from planner.translate.expressions import Translator
from planner.translate.scan_predicates import constant_side
from planner.translate.scope import RTE_RELATION, Scope, Statement
from planner.tree.nodes import Node
from storage.parquet.arrow_types import arrow_type
from storage.plan import Condition

# What the statement must not have.
_MORE_THAN_CONSTANTS: Final = ("cteList", "returningList", "withCheckOptions")
# The types of columns that are set, and those of their constants.
_CONSTANTS: Final[Mapping[int, type]] = {
    BOOL: bool, INT2: int, INT4: int, INT8: int, FLOAT4: float, FLOAT8: float, NUMERIC: Decimal, TEXT: str,
    VARCHAR: str, BYTEA: bytes, DATE: datetime.date, TIMESTAMP: datetime.datetime, TIMESTAMPTZ: datetime.datetime,
    UUID: str,
}  # fmt: skip
_INTEGERS: Final = frozenset({INT2, INT4, INT8})
_OF_VARIABLE_LENGTH: Final = frozenset({NUMERIC, TEXT, VARCHAR, BYTEA})
# Sums of the type of the column that they are assigned to.
_SUMS: Final = {
    f"int{types}{name}(int{left},int{right})": operator
    for name, operator in (("pl", "+"), ("mi", "-"))
    for types, left, right in (
        ("2", 2, 2), ("4", 4, 4), ("8", 8, 8), ("42", 4, 2), ("24", 2, 4), ("82", 8, 2), ("28", 2, 8), ("84", 8, 4),
        ("48", 4, 8),
    )
}  # fmt: skip
_CALL: Final = 0  # CoercionForm of primnodes.h: COERCE_EXPLICIT_CALL
# PostgreSQL refuses longer rows of indexes than 2,704 bytes (nbtree.h); an index has 32 columns at most.
_INDEXED_BYTES_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Constant:
    """A column's new value; with an `operator`, + or -, it is applied to the old one, and may overflow."""

    scalar: pa.Scalar
    operator: str | None = None


@dataclass(frozen=True, slots=True)
class ConstantChange:
    """The rows that meet all `conditions` get these values, by attnum; they go if there are none."""

    conditions: tuple[Condition, ...]
    values: Mapping[int, Constant]


def constant_change(query: Node, context: Context) -> ConstantChange | None:
    """Return what the statement does, if it sets constants in rows of one table, or deletes them, and no more."""
    if query.commandType not in (CHANGED, DELETED) or any(query.fields.get(name) for name in _MORE_THAN_CONSTANTS):
        return None
    entry = query.rtable[query.resultRelation - 1]
    table = context.tables.get(entry.relid) if entry.rtekind == RTE_RELATION else None
    sources = [source.rtindex for source in query.jointree.fromlist or () if source.type == "RANGETBLREF"]
    if table is None or sources != [query.resultRelation] or len(query.jointree.fromlist) != 1:
        return None
    if any(entry.fields.get(name) for name in MORE_THAN_ROWS):
        return None
    columns = {column.attnum: column for column in table.columns if is_plain(column)}
    conditions = met_conditions(query, columns, context)
    values = {} if query.commandType == DELETED else _values(query, table, context)
    return None if conditions is None or values is None else ConstantChange(conditions, values)


def _values(query: Node, table: Table, context: Context) -> dict[int, Constant] | None:
    """Return the new values by attnum; None if one is no constant that the column keeps as it is."""
    translator = Translator(Scope(Statement(context), query, None))
    values: dict[int, Constant] = {}
    for target in query.targetList or ():
        column = table.column(target.resno)
        operator, node = _applied(translator.scope, target.expr, query.resultRelation, column)
        value = None if target.resjunk else _value(translator, node, column)
        if value is None:
            return None
        values[column.attnum] = Constant(value, operator)
    return values


def _applied(scope: Scope, node: Node, target: int, column: Column) -> tuple[str | None, Node]:
    """Return the operator and the operand, if the expression adds to an integer column's own value; else None, and the
    expression."""
    operator = _SUMS.get(scope.statement.context.builtins.signature(node.opfuncid)) if node.type == "OPEXPR" else None
    sides = None if operator is None else constant_side(node)
    if sides is None:
        return None, node
    own, operand, mirrored = sides
    is_own = own.type == "VAR" and (own.varno, own.varattno, own.varlevelsup) == (target, column.attnum, 0)
    if not is_own or own.vartype != column.type_oid or (mirrored and operator != "+"):
        return None, node
    return operator, operand


def _value(translator: Translator, node: Node, column: Column) -> pa.Scalar | None:
    expected = _CONSTANTS.get(column.type_oid)
    if expected is None or column.domain is not None or _is_text_of_number(column):
        return None
    if _is_null(node):
        return pa.scalar(None, arrow_type(column.form))
    try:
        value = translator.value(node)
        alike = value.type_oid == column.type_oid or {value.type_oid, column.type_oid} <= _INTEGERS
        if not alike or not (value.constant is None or type(value.constant) is expected):
            return None
        if column.type_oid == UUID and value.constant not in (None, str(uuid.UUID(str(value.constant)))):
            return None
        return pa.scalar(value.constant, arrow_type(column.form))
    except (SluiceError, pa.ArrowException, OverflowError, ValueError):
        return None  # an engine says what is wrong, if anything is


def _is_null(node: Node) -> bool:
    """Whether it is NULL, perhaps brought to a length by a function of PostgreSQL's own, each of which is strict."""
    while node.type == "FUNCEXPR" and node.funcformat != _CALL and node.funcid < FIRST_USER_OID:
        node = node.args[0]
    return bool(node.type == "CONST" and node.constisnull)


def _is_text_of_number(column: Column) -> bool:
    return column.type_oid == NUMERIC and column.form.spark == "STRING"


def is_kept_by(table: Table, values: Mapping[int, Constant], generated: Collection[int], *, checked: bool) -> bool:
    """Whether new rows with these values, if any, satisfy the table's rules, but for its keys and references.

    `generated` columns, CHECKs (`checked`), and expressions of indexes would have to be computed.
    """
    if not values:
        return True
    forms = [index.form for index in table.indexes]
    if generated or checked or table.computed_keys or table.exclusions or any(form.is_computed for form in forms):
        return False
    indexed = {attnum for key in table.keys for attnum in key.attnums}.union(*(form.attnums for form in forms))
    return all(_fits(table.column(attnum), value, attnum in indexed) for attnum, value in values.items())


def _fits(column: Column, value: Constant, is_indexed: bool) -> bool:
    if not value.scalar.is_valid:
        return column.nullable
    return not is_indexed or column.type_oid not in _OF_VARIABLE_LENGTH or len(str(value.scalar)) <= _INDEXED_BYTES_MAX
