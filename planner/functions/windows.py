"""Window functions proper (aggregates over windows are in `aggregates`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from catalog.datatypes import NUMERIC
from catalog.errors import unsupported
from planner.functions.call import Build, Call, Row, row
from planner.spark import numerics
from planner.spark.builders import Expression, cast
from planner.spark.values import MISSING, Value, spark_type


def _ranking(function: str, spark: str) -> Build:
    def build(given: Call) -> Value:
        return given.result(cast(given.parts()(function, *given.sql), spark))

    return build


def _shifted(function: str) -> Build:
    """lag, lead, first_value, last_value, nth_value: a value of another row."""

    def build(given: Call) -> Value:
        value, *rest = given.arguments
        parts = given.parts()
        others: list[Expression] = []
        for index, argument in enumerate(rest, 1):
            if index == 1:
                offset = given.constant(1, "an offset")
                if not isinstance(offset, int) or (function == "nth_value" and offset < 1):
                    raise unsupported(f"{given.signature} with this offset")
            others.append(argument.sql)
        if value.type_oid == NUMERIC:
            default = value
            if len(rest) > 1:
                value, default = numerics.unified([value, rest[1]])
                others[1] = default.sql
            if not (numerics.is_static(value) or value.held.is_text):
                display_others = others if len(rest) < 2 else [others[0], numerics.display_of(default)]
                display = parts(function, numerics.display_of(value), *display_others)
                held = replace(value.held, display=display)
                return replace(value, sql=parts(function, value.sql, *others), decimal=held, constant=MISSING)
            return replace(value, sql=parts(function, value.sql, *others), constant=MISSING)
        if len(rest) > 1:
            others[1] = cast(others[1], spark_type(value.type_oid))
            value = replace(value, typmod=-1)  # a default of char(n) has no spaces
        return replace(value, sql=parts(function, value.sql, *others), constant=MISSING)

    return build


_WINDOW: Final = "OVER (PARTITION BY id % 2 ORDER BY id)"

ROWS: Final[tuple[Row, ...]] = (
    row("row_number()", _ranking("row_number", "BIGINT"), f"SELECT id, row_number() {_WINDOW} FROM integers",
        "SELECT count(*) FROM (SELECT row_number() OVER () AS n FROM integers) x WHERE n > 2"),
    row("rank()", _ranking("rank", "BIGINT"), "SELECT id, rank() OVER (ORDER BY id % 3) FROM integers"),
    row("dense_rank()", _ranking("dense_rank", "BIGINT"), "SELECT id, dense_rank() OVER (ORDER BY s) FROM integers"),
    row("percent_rank()", _ranking("percent_rank", "DOUBLE"),
        "SELECT id, percent_rank() OVER (ORDER BY id % 3) FROM integers"),
    row("cume_dist()", _ranking("cume_dist", "DOUBLE"), "SELECT id, cume_dist() OVER (ORDER BY id % 3) FROM integers"),
    row("ntile(int4)", _ranking("ntile", "INT"), "SELECT id, ntile(3) OVER (ORDER BY id) FROM integers"),
    *(row(f"{name}({kinds})", _shifted(name), *probes)
      for name in ("lag", "lead")
      for kinds, probes in (
          ("anyelement", (f"SELECT id, {name}(t) {_WINDOW} FROM texts",
                          f"SELECT id, {name}(n) {_WINDOW} FROM decimals")),
          ("anyelement,int4", (f"SELECT id, {name}(s, 2) {_WINDOW} FROM integers",)),
          ("anycompatible,int4,anycompatible", (f"SELECT id, {name}(s, 1, 0::int2) {_WINDOW} FROM integers",
                                               f"SELECT id, {name}(n, 1, 0) {_WINDOW} FROM decimals")))),
    row("first_value(anyelement)", _shifted("first_value"), f"SELECT id, first_value(t) {_WINDOW} FROM texts"),
    row("last_value(anyelement)", _shifted("last_value"), f"SELECT id, last_value(t) {_WINDOW} FROM texts",
        "SELECT id, last_value(t) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM texts"),
    row("nth_value(anyelement,int4)", _shifted("nth_value"), f"SELECT id, nth_value(t, 2) {_WINDOW} FROM texts"),
)  # fmt: skip

# Functions that take no frame in Spark, and ignore it in PostgreSQL.
FRAMELESS: Final = frozenset(
    found.signature for found in ROWS if found.signature.split("(")[0] not in ("first_value", "last_value", "nth_value")
)
