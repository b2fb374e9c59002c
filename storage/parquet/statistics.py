"""Column statistics of a Parquet file's footer, in DuckLake's form.

Per leaf field ID: the number of values, the number of nulls (an empty list counts one in its elements), the compressed
size and the bounds. An unknown bound is None, never a guess; of unknown numbers each is the greatest possible. NaN:
parquet-java (Spark) orders it above everything, so Spark's files have NaN as the maximum if there is one. Arrow's
writer leaves NaN out of bounds, so code that writes with Arrow must say which columns have it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.datatypes import LakeForm
from catalog.model import Column, ColumnStatistics
from storage.parquet.arrow_types import FIELD_ID, leaf_types
from storage.parquet.bounds import BoundForm, Key, bound_form

_FLOATS = ("float32", "float64")


def column_statistics(
    metadata: pq.FileMetaData,
    columns: tuple[Column, ...],
    nan: Mapping[int, bool] | None = None,
) -> dict[int, ColumnStatistics]:
    """Return the statistics of every leaf of `columns` in the file, by field ID.

    `nan` says for each float leaf whether it has NaN, if the writer knows; without it the file is one of Spark's.
    Fields of the file that are not in `columns` are skipped.
    """
    forms = {field_id: form for column in columns for field_id, form in leaf_types(column)}
    ids = leaf_field_ids(metadata.schema.to_arrow_schema())
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    result: dict[int, ColumnStatistics] = {}
    for index, field_id in enumerate(ids):
        if field_id is None or field_id not in forms:
            continue
        chunks = [group.column(index) for group in groups]
        known_nan = None if nan is None else nan.get(field_id, False)
        result[field_id] = _statistics(chunks, forms[field_id], known_nan)
    return result


def leaf_field_ids(schema: pa.Schema) -> tuple[int | None, ...]:
    """Return the field IDs of the leaves of a Parquet file's schema, in the file's order; None for a leaf without
    one."""
    return tuple(field_id for field in schema for field_id in _leaf_ids(field))


def _leaf_ids(field: pa.Field) -> Iterator[int | None]:
    if pa.types.is_struct(field.type):
        for index in range(field.type.num_fields):
            yield from _leaf_ids(field.type.field(index))
    elif pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
        yield from _leaf_ids(field.type.value_field)
    else:
        text = (field.metadata or {}).get(FIELD_ID)
        yield None if text is None else int(text)


def _statistics(chunks: list[pq.ColumnChunkMetaData], form: LakeForm, known_nan: bool | None) -> ColumnStatistics:
    counts = [_null_count(chunk) for chunk in chunks]
    # A chunk that does not say how many NULLs it has may have any number.
    nulls = sum(chunk.num_values if count is None else count for chunk, count in zip(chunks, counts, strict=True))
    values = sum(chunk.num_values - (count or 0) for chunk, count in zip(chunks, counts, strict=True))
    size = sum(chunk.total_compressed_size for chunk in chunks)
    bounds = bound_form(form.ducklake)
    minimum, maximum = _extremes([chunk for chunk in chunks if chunk.num_values > (_null_count(chunk) or 0)], bounds)
    contains_nan = None
    if form.ducklake in _FLOATS:
        contains_nan = _has_nan(values, maximum, known_nan)
        minimum, maximum = _not_nan(minimum), _not_nan(maximum)
    return ColumnStatistics(
        value_count=values,
        null_count=nulls,
        size_bytes=size,
        minimum=None if minimum is None else bounds.to_text(minimum, False),
        maximum=None if maximum is None else bounds.to_text(maximum, True),
        contains_nan=contains_nan,
    )


def _null_count(chunk: pq.ColumnChunkMetaData) -> int | None:
    """Return the number of NULLs; None if the chunk does not say, as Spark's with long bounds."""
    statistics = chunk.statistics
    return int(statistics.null_count) if statistics is not None and statistics.has_null_count else None


def _extremes(chunks: list[pq.ColumnChunkMetaData], form: BoundForm) -> tuple[Key | None, Key | None]:
    """Return the least and the greatest over all chunks that hold a value; None if any of them does not say."""
    found = [chunk.statistics for chunk in chunks]
    if not found or any(each is None or not each.has_min_max for each in found):
        return None, None
    lows = [form.from_raw(each.min_raw) for each in found]
    highs = [form.from_raw(each.max_raw) for each in found]
    return min(lows, key=_order), max(highs, key=_order)


def _order(key: Key) -> tuple[bool, Key | bytes]:
    """Order NaN last, and strings by their bytes."""
    if isinstance(key, float) and math.isnan(key):
        return True, 0
    return False, key.encode() if isinstance(key, str) else key


def _has_nan(values: int, maximum: Key | None, known: bool | None) -> bool | None:
    if known is not None:
        return known
    if values == 0:
        return False
    return None if maximum is None else math.isnan(maximum)  # type: ignore[arg-type]


def _not_nan(key: Key | None) -> Key | None:
    return None if isinstance(key, float) and math.isnan(key) else key
