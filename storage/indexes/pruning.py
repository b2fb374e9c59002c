"""Pruning: the files in which a row may meet every comparison of a scan. Pure.

If in doubt, the file is read. It stays if anything is unknown: a missing bound, a missing column, a type whose order is
not the order of its texts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final, Self
from uuid import UUID

from catalog import datatypes
from catalog.datatypes import LakeForm
from catalog.model import Column, DataFile, Partition, PartitionValue, Table
from storage.parquet.bounds import Key, bound_form
from storage.parquet.partitions import partition_values
from storage.plan import Comparison, Value

_NUMBERS: Final = (
    datatypes.INT2,
    datatypes.INT4,
    datatypes.INT8,
    datatypes.FLOAT4,
    datatypes.FLOAT8,
    datatypes.NUMERIC,
)
# An enumeration's bounds are those of its labels as texts, which say nothing about its order.
_STRINGS: Final = (datatypes.TEXT, datatypes.VARCHAR, datatypes.ANYENUM, datatypes.UUID)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def prune(
    files: Iterable[DataFile], table: Table, predicate: Iterable[Comparison]
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """Return (files to read, files in which no row can meet the conjunction `predicate`), each in the order given.

    A file all of whose rows are deleted is left out.
    """
    files = list(files)
    conditions = [
        _Condition.of(table.column(comparison.attnum), comparison).with_buckets_of(files) for comparison in predicate
    ]
    kept: list[DataFile] = []
    skipped: list[DataFile] = []
    for file in files:
        may_hold = file.live_count > 0 and all(condition.may_hold(file) for condition in conditions)
        (kept if may_hold else skipped).append(file)
    return tuple(kept), tuple(skipped)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A comparison, prepared for all files: its constants as keys, and how to read bounds, if the column has any.

    Several constants are in order, strings as bytes, or None if one of them is unknown. Values of a type with
    `parts` have no bounds. `buckets` are those of the constants of an equality, by the transform of a partition key.
    """

    column_id: int
    operator: str
    constants: tuple[Key | None, ...] = ()
    from_text: Callable[[str], Key] | None = None
    has_nan: bool = False
    parts: bool = False
    form: LakeForm | None = None
    buckets: Mapping[str, Collection[PartitionValue]] = field(default_factory=dict)

    @classmethod
    def of(cls, column: Column, comparison: Comparison) -> Self:
        form = column.form
        constants = () if form.children else tuple(_key(column, value) for value in comparison.values)
        given = any(constant is not None for constant in constants)
        if comparison.operator == "in" and len(constants) > 1:
            known = given and None not in constants
            constants = tuple(sorted(map(_ordered, constants))) if known else (None,)
        return cls(
            column.column_id,
            comparison.operator,
            constants,
            bound_form(form.ducklake).from_text if given else None,
            has_nan=column.type_oid in (datatypes.FLOAT4, datatypes.FLOAT8),
            parts=bool(form.children),
            form=form,
        )

    def with_buckets_of(self, files: Iterable[DataFile]) -> _Condition:
        """Return the condition with the buckets that its constants have in files that are divided by buckets."""
        known = all(constant is not None and _is_hashed(constant) for constant in self.constants)
        if self.form is None or self.operator not in ("=", "in") or not self.constants or not known:
            return self
        transforms = {
            transform
            for key in {file.partition.key for file in files if file.partition is not None}
            for column_id, transform in key
            if column_id == self.column_id and transform.startswith("bucket")
        }
        found = {each: frozenset(partition_values(each, self.form, self.constants)) for each in transforms}
        return replace(self, buckets=found) if found else self

    def _excludes_bucket(self, partition: Partition) -> bool:
        return partition.values is not None and any(
            column_id == self.column_id and transform in self.buckets and value not in self.buckets[transform]
            for (column_id, transform), value in zip(partition.key, partition.values, strict=True)
        )

    def may_hold(self, file: DataFile) -> bool:
        """Whether a row of the file may meet it."""
        statistics = file.statistics.get(self.column_id)
        if statistics is None or self.parts:
            return True
        if self.operator == "is null":
            return statistics.null_count > 0
        if statistics.value_count == 0:
            return False
        if self.operator == "is not null":
            return True
        if self.buckets and file.partition is not None and self._excludes_bucket(file.partition):
            return False
        if self.from_text is None:
            return True
        low = None if statistics.minimum is None else self.from_text(statistics.minimum)
        high = None if statistics.maximum is None else self.from_text(statistics.maximum)
        if self.operator == "in" and len(self.constants) > 1:
            return _some_within(self.constants, _ordered(low), _ordered(high))
        operator = "=" if self.operator == "in" else self.operator
        # NaN is greater than everything, and equal only to NaN.
        may_have_nan = self.has_nan and statistics.contains_nan is not False
        below = operator == "=" or (operator in (">", ">=") and not may_have_nan)
        return any(
            constant is None or not _excludes(low, high if below else None, operator, constant)
            for constant in self.constants
        )


def _is_hashed(constant: Key) -> bool:
    """Whether the constant has a bucket: a number does if it is one of 64 bits."""
    return isinstance(constant, str | bytes) or (type(constant) is int and -(2**63) <= constant < 2**63)


def _some_within(ordered: Sequence[Any], low: Any, high: Any) -> bool:
    """Whether one of the constants is within the bounds."""
    place = 0 if low is None else bisect_left(ordered, low)
    return place < len(ordered) and (high is None or ordered[place] <= high)


def _ordered(key: Key | None) -> Any:
    """Return a key that orders as the column's values do."""
    return key.encode() if isinstance(key, str) else key


def _excludes(low: Key | None, high: Key | None, operator: str, constant: Key) -> bool:
    """Whether no value from `low` to `high` satisfies the comparison with the constant."""
    if high is not None and _less(high, constant, or_equal=operator == ">"):
        return True
    return low is not None and operator in ("=", "<", "<=") and _less(constant, low, or_equal=operator == "<")


def _less(left: Key, right: Key, *, or_equal: bool) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        left, right = left.encode(), right.encode()
    return left <= right if or_equal else left < right  # type: ignore[operator]


def comparable(column: Column, value: Value) -> bool:
    """Whether a constant compares with the column's values as one of them does."""
    return _key(column, value) is not None


def _key(column: Column, value: Value) -> Key | None:
    """Return the constant as a key of the column's type; None if the two cannot be compared by one."""
    match value:
        case bool():
            return int(value) if column.type_oid == datatypes.BOOL else None
        case int() | float() | Decimal():
            comparable = column.type_oid in _NUMBERS and column.form.ducklake != "varchar" and not _is_nan(value)
            return value if comparable else None
        case str():
            return value if datatypes.kind_of(column.type_oid) in _STRINGS else None
        case bytes():
            return value if column.type_oid == datatypes.BYTEA else None
        case UUID():
            return str(value) if column.type_oid == datatypes.UUID else None
        case datetime():
            return _timestamp_key(column, value)
        case date():
            return (value - _EPOCH.date()).days if column.type_oid == datatypes.DATE else None
        case time():
            return _time_key(value) if column.type_oid == datatypes.TIME and value.tzinfo is None else None


def _timestamp_key(column: Column, value: datetime) -> int | None:
    expected = datatypes.TIMESTAMP if value.tzinfo is None else datatypes.TIMESTAMPTZ
    if column.type_oid != expected:
        return None
    elapsed = (value.replace(tzinfo=UTC) if value.tzinfo is None else value) - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def _time_key(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _is_nan(value: int | float | Decimal) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value)
