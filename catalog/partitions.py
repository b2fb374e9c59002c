"""The partition of a data file in JSON, as `publish_rows` in catalog/sql/publish.sql takes it; its texts in DuckLake.

Pure. DuckLake's texts are those that DuckDB 1.5.5 writes into `ducklake_file_partition_value`: of `month`, `day` and
`hour` the number within the year, month or day, in UTC; NULL for infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from catalog.model import Partition, PartitionValue

# Of dates and timestamps; what numpy calls them.
UNITS: Final = {"year": "Y", "month": "M", "day": "D", "hour": "h"}


def partition_to_json(partition: Partition | None) -> dict[str, Any] | None:
    """Return the partition, with DuckLake's texts of its values."""
    if partition is None:
        return None
    values = partition.values
    texts = None
    if values is not None:
        texts = [ducklake_text(each, value) for (_, each), value in zip(partition.key, values, strict=True)]
    return {"key": partition.key, "values": values, "texts": texts}


def partition_from_json(partition: Mapping[str, Any] | None) -> Partition | None:
    """Read a partition, published or staged."""
    if partition is None:
        return None
    values = partition["values"]
    key = tuple((column_id, transform) for column_id, transform in partition["key"])
    return Partition(key, None if values is None else tuple(values))


def ducklake_text(transform: str, value: PartitionValue) -> str | None:
    """Return DuckLake's text of a partition value."""
    if transform not in UNITS:
        return None if value is None else str(value)
    if not isinstance(value, int):
        return None
    if transform == "year":
        return str(1970 + value)
    if transform == "month":
        return str(value % 12 + 1)
    if transform == "hour":
        return str(value % 24)
    return str(_day_of_month(value))


def _day_of_month(days: int) -> int:
    """Return the day of its month of a number of days since 1970, in years of any number; years begin in March here."""
    of_era = (days + 719_468) % 146_097  # an era has 400 years
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return of_year - (153 * month + 2) // 5 + 1
