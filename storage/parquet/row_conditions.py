"""Which rows of a batch meet conditions, by Arrow's comparisons where these are PostgreSQL's.

Columns are in lake form, in which infinite dates and times are the greatest and least numbers, and uuids texts that
order as uuids do. Strings compare by bytes. NaN equals nothing here and is greater than each constant, which is never
NaN itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import Column, Table
from storage.parquet.arrow_types import arrow_type
from storage.plan import ColumnCondition, Condition, Contains, Either, Unlisted, Value

_Test: TypeAlias = Callable[[pa.Array], pa.Array]
_ORDERS: Final[dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    "=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_SEARCHES: Final[dict[str, Callable[[pa.Array, str], pa.Array]]] = {
    "start": pc.starts_with, "end": pc.ends_with, "anywhere": pc.match_substring,
}  # fmt: skip
_REFUSED: Final = (pa.ArrowException, OverflowError, TypeError, ValueError)


def is_decided(column: Column, condition: ColumnCondition) -> bool:
    """Whether a condition on the column, whose constants are of its type, can be tested here."""
    try:
        _test(column, condition)(pa.array([], arrow_type(column.form)))
    except _REFUSED:
        return False
    return True


def condition_columns(conditions: Iterable[Condition]) -> set[int]:
    """Return the attnums of the columns that conditions are on."""
    found: set[int] = set()
    for each in conditions:
        if isinstance(each, Either):
            found |= condition_columns(part for alternative in each.alternatives for part in alternative)
        else:
            found.add(each.attnum)
    return found


def read_columns(table: Table, columns: Iterable[Column], conditions: Iterable[Condition]) -> list[Column]:
    """Return the columns that a scan reads: those of its result, each once, and those that its conditions are on."""
    met = condition_columns(conditions)
    return list(dict.fromkeys([*columns, *(column for column in table.columns if column.attnum in met)]))


class RowFilter:
    """Chooses the rows of batches that have these columns, in this order; all conditions are decided."""

    def __init__(self, columns: Sequence[Column], conditions: Sequence[Condition]) -> None:
        self._columns = columns
        self._tests = [self._mask_of(condition) for condition in conditions]

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that meet all conditions."""
        for mask in self._tests:
            if not batch.num_rows:
                break
            batch = batch.filter(mask(batch))
        return batch

    def mask(self, rows: pa.Table) -> pa.BooleanArray:
        """Return for each row whether it meets all conditions."""
        met = [pa.array([], pa.bool_())]
        met += [_all([test(batch) for test in self._tests] or [_always(batch)]) for batch in rows.to_batches()]
        return pa.concat_arrays(met)

    def _mask_of(self, condition: Condition) -> Callable[[pa.RecordBatch], pa.Array]:
        if isinstance(condition, Either):
            alternatives = [[self._mask_of(part) for part in each] for each in condition.alternatives]
            return lambda batch: _any([_all([mask(batch) for mask in each]) for each in alternatives])
        place = next(place for place, column in enumerate(self._columns) if column.attnum == condition.attnum)
        test = _test(self._columns[place], condition)
        return lambda batch: test(batch.column(place)).fill_null(False)


def _always(batch: pa.RecordBatch) -> pa.Array:
    return pa.repeat(True, batch.num_rows)


def _any(masks: Sequence[pa.Array]) -> pa.Array:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.or_(found, mask)
    return found


def _all(masks: Sequence[pa.Array]) -> pa.Array:
    found = masks[0]
    for mask in masks[1:]:
        found = pc.and_(found, mask)
    return found


def _test(column: Column, condition: ColumnCondition) -> _Test:
    """Return the condition for arrays of the column. Arrow's errors if there is none."""
    kind = arrow_type(column.form)
    if isinstance(condition, Contains):
        return _containing(condition)
    if isinstance(condition, Unlisted):
        return _unlisted(kind, condition.values)
    match condition.operator:
        case "is null":
            return lambda array: array.is_null()
        case "is not null":
            return lambda array: array.is_valid()
        case "in":
            return _listed(kind, condition.values)
        case operator:
            return _ordered(kind, operator, condition.values[0])


def _ordered(kind: pa.DataType, operator: str, value: Value) -> _Test:
    order, constant = _ORDERS[operator], _scalar(kind, value)
    if pa.types.is_floating(kind) and operator in (">", ">="):
        return lambda array: pc.or_(order(array, constant), pc.is_nan(array))
    return lambda array: order(array, constant)


def _containing(condition: Contains) -> _Test:
    search = _SEARCHES[condition.at]
    if not condition.negated:
        return lambda array: search(array, condition.text)
    return lambda array: pc.invert(search(array, condition.text))


def _scalar(kind: pa.DataType, value: Value) -> pa.Scalar:
    """Return a constant that compares with values of this type: a number need not be one of them."""
    if pa.types.is_integer(kind):
        return pa.scalar(value, pa.int64())
    if pa.types.is_floating(kind):
        return pa.scalar(value, pa.float64())
    if pa.types.is_decimal(kind):
        return pa.scalar(value)
    return pa.scalar(str(value) if isinstance(value, UUID) else value, kind)


def _listed(kind: pa.DataType, values: Sequence[Value]) -> _Test:
    if pa.types.is_floating(kind):  # 0 and -0 are equal, which a search by hash does not know
        masks = [_ordered(kind, "=", value) for value in values]
        none: _Test = lambda array: pa.repeat(False, len(array))  # noqa: E731
        return (lambda array: _any([mask(array) for mask in masks])) if masks else none
    listed = _values_of(kind, values)
    return lambda array: pc.is_in(array, value_set=listed)


def _unlisted(kind: pa.DataType, values: Sequence[Value]) -> _Test:
    listed = _listed(kind, values)
    return lambda array: pc.and_(pc.is_valid(array), pc.invert(listed(array).fill_null(False)))


def _values_of(kind: pa.DataType, values: Sequence[Value]) -> pa.Array:
    """Return those of the constants that a column of this type can have."""
    given = [str(value) if isinstance(value, UUID) else value for value in values]
    try:
        return pa.array(given, kind)
    except (pa.ArrowInvalid, OverflowError):
        return pa.array([value for value in given if _can_have(kind, value)], kind)


def _can_have(kind: pa.DataType, value: Value) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True
