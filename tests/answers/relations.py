"""What stands beside the tables: views over them and over views, and functions of users."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

_COLUMNS: Final = (
    ("id", "int4"), ("k", "int4"), ("c_int4", "int4"), ("c_text", "text"), ("c_numeric", "numeric"), ("c_date", "date"),
    ("c_int8", "int8"),
)  # fmt: skip


@dataclass(frozen=True)
class View:
    """Its `id` tells its rows apart, as a table's does. `base`: the table through whose rows it can be changed."""

    name: str
    sql: str
    columns: tuple[tuple[str, str], ...] = _COLUMNS
    base: str = ""


_OVER_A_TABLE: Final = (
    "SELECT id, k, c_int4, c_text, c_numeric, c_date, length(c_text)::int8 AS c_int8 FROM {0} WHERE k <> 3",
    "SELECT id, k, c_int4, c_text, c_numeric, c_date, count(*) OVER (PARTITION BY k) AS c_int8 FROM {0}",
    (
        "SELECT id, k, nullif(c_int4, 2) AS c_int4, upper(c_text) AS c_text, c_numeric, c_date, c_int4::int8 AS c_int8 "
        "FROM {0} ORDER BY k, id LIMIT 6"
    ),
    "SELECT DISTINCT ON (id) id, k, c_int4, c_text, c_numeric, c_date, id::int8 AS c_int8 FROM {0} ORDER BY id",
)
_OVER_A_VIEW: Final = (
    (
        "SELECT a.id, coalesce(b.k, a.k) AS k, a.c_int4, b.c_text, a.c_numeric, b.c_date, "
        "(SELECT count(*) FROM {0} c WHERE c.k = a.k) AS c_int8 FROM view1 a LEFT JOIN {0} b ON b.id = a.id"
    ),
    (
        "SELECT a.id, a.k, q.c_int4, q.c_text, a.c_numeric, a.c_date, a.c_int8 FROM view1 a LEFT JOIN LATERAL "
        "(SELECT b.c_int4, b.c_text FROM {0} b WHERE b.k >= a.k ORDER BY b.k, b.id LIMIT 1) q ON true"
    ),
    (
        "SELECT coalesce(k, -1) AS id, k, min(c_int4) AS c_int4, max(c_text) AS c_text, max(c_numeric) AS c_numeric, "
        "min(c_date) FILTER (WHERE c_int8 > 0) AS c_date, count(*) AS c_int8 FROM view1 GROUP BY k"
    ),
    (
        "SELECT a.id, a.k, a.c_int4, a.c_text, a.c_numeric, a.c_date, a.c_int8 FROM view1 a "
        "WHERE NOT EXISTS (SELECT FROM {0} b WHERE b.c_int4 = a.c_int4 AND b.id <> a.id)"
    ),
)


_CHANGED: Final = (
    "SELECT id, k, c_int4, c_text, c_numeric, c_date FROM {0}",
    "SELECT id, k, c_int4, c_text, c_numeric, c_date FROM {0} WHERE k IS DISTINCT FROM 4",
    "SELECT c_date, c_numeric, c_text, c_int4, k, id FROM {0} WHERE id % 2 = 0 OR k > 1",
    "SELECT id, k, c_int4, c_text, c_numeric, c_date FROM {0} WHERE k < 4 WITH CHECK OPTION",
)


def views_of(chance: random.Random) -> tuple[View, ...]:
    """One over a table, one over that, and one that can be changed."""
    tables = [f"t{number}" for number in range(1, 5)]
    first, second = chance.choice(_OVER_A_TABLE), chance.choice(_OVER_A_VIEW)
    changed = chance.choice(tables)
    return (
        View("view1", f"CREATE VIEW view1 AS {first.format(chance.choice(tables))}"),
        View("view2", f"CREATE VIEW view2 AS {second.format(chance.choice(tables))}"),
        View("view3", f"CREATE VIEW view3 AS {chance.choice(_CHANGED).format(changed)}", _COLUMNS[:-1], changed),
    )


FUNCTIONS: Final = (
    "CREATE FUNCTION doubled(n int4) RETURNS int4 LANGUAGE sql IMMUTABLE AS 'SELECT n % 1000 * 2'",
    "CREATE FUNCTION tagged(words text) RETURNS text LANGUAGE sql IMMUTABLE RETURN '<' || coalesce(words, '-') || '>'",
    (
        "CREATE FUNCTION clamped(n int4) RETURNS int4 LANGUAGE plpgsql IMMUTABLE STRICT AS "
        "'BEGIN IF n > 3 THEN RETURN 3; END IF; RETURN n; END'"
    ),
    (
        "CREATE FUNCTION numbers(n int4) RETURNS SETOF int4 LANGUAGE sql IMMUTABLE AS "
        "'SELECT generate_series(1, abs(n % 3))'"
    ),
    (
        "CREATE FUNCTION split(n int4, OUT whole int4, OUT rest text) LANGUAGE sql IMMUTABLE AS "
        "'SELECT n / 2, (n % 2)::text'"
    ),
    "CREATE AGGREGATE longest(text) (SFUNC = text_larger, STYPE = text)",
)
