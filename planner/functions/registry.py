"""The allow-list, composed of its families and checked: no signature occurs twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from catalog.datatypes import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TID,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    VARCHAR,
)
from planner.functions import (
    aggregates,
    arrays,
    binaries,
    casts,
    comparison,
    date_parsing,
    date_templates,
    datetimes,
    floats,
    integers,
    intervals,
    json_documents,
    number_templates,
    numerics,
    ordered_sets,
    session_values,
    strings,
    time_zones,
    volatile,
    windows,
)
from planner.functions.call import Row
from planner.functions.patterns import regex_functions


def _table(*families: Iterable[Row]) -> Mapping[str, Row]:
    rows: dict[str, Row] = {}
    for family in families:
        for row in family:
            if row.signature in rows:
                raise AssertionError(f"{row.signature} is listed twice")
            rows[row.signature] = row
    return rows


FUNCTIONS: Final = _table(
    comparison.ROWS,
    integers.ROWS,
    floats.ROWS,
    numerics.ROWS,
    number_templates.ROWS,
    strings.ROWS,
    regex_functions.ROWS,
    datetimes.ROWS,
    date_templates.ROWS,
    date_parsing.ROWS,
    time_zones.ROWS,
    binaries.ROWS,
    json_documents.ROWS,
    intervals.ROWS,
    arrays.ROWS,
    casts.ROWS,
    session_values.ROWS,
    volatile.ROWS,
)
AGGREGATES: Final = _table(aggregates.ROWS, ordered_sets.ROWS)
WINDOW_FUNCTIONS: Final = _table(windows.ROWS)

# Functions behind `=`, for which IS DISTINCT FROM, IN lists and hashing are known.
EQUALITIES: Final = frozenset(
    signature
    for signature in FUNCTIONS
    if signature.split("(")[0].endswith("eq") and signature in {row.signature for row in comparison.ROWS}
)

# The same, negated.
INEQUALITIES: Final = frozenset(
    signature
    for signature in FUNCTIONS
    if signature.split("(")[0].endswith("ne") and signature in {row.signature for row in comparison.ROWS}
)

# Types whose lake form Spark sorts, and groups, as PostgreSQL does the type (NUMERIC: as `comparable` gives it).
ORDERED_PLAINLY: Final = frozenset(
    {BOOL, BYTEA, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, OID, TEXT, TID, TIME, TIMESTAMP, TIMESTAMPTZ,
     UNKNOWN, UUID, VARCHAR}
)  # fmt: skip
GROUPED_PLAINLY: Final = ORDERED_PLAINLY

# Aggregates whose elementary parts cannot simply be made DISTINCT each.
NOT_DISTINCT: Final = frozenset({"sum(interval)", "sum(float8)", "avg(float8)", "avg(float4)"})
