"""GREATEST and LEAST of numerics: the value found keeps the display scale of the argument that it came from."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.datatypes import NUMERIC
from planner import numerics
from planner.spark import call, case, integer, is_not_null, struct
from planner.values import Value


def extreme_of_numerics(values: Sequence[Value], greatest: bool) -> Value:
    """GREATEST or LEAST with display scales: of equal values the first counts, NULLs do not."""
    items = [
        case((is_not_null(value.sql), struct(v=value.sql, o=integer(-number if greatest else number),
                                             s=numerics.display_of(value))))
        for number, value in enumerate(values)
    ]  # fmt: skip
    found = call("array_max" if greatest else "array_min", call("array", *items))
    sql, held = numerics.unpacked(found, values[0].held)
    return Value(sql, NUMERIC, -1, held)
