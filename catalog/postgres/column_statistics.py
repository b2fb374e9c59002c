"""Statistics of sampled values, computed by PostgreSQL's ANALYZE.

The gateway puts the values into a temporary table, one column at a time, analyses it and drops it. The table's column
is of PostgreSQL's own types: the base type of a domain, and numbers for the labels of an enumeration, in its order. So
no CHECK and no cast of a user runs here. To store values in the catalog, PostgreSQL reads them as the column's type,
and would run such CHECKs as the role that asks for ANALYZE, which PostgreSQL's ANALYZE does not do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.datatypes import INT4, TEXT
from catalog.model import Column, Label
from catalog.postgres.pool import Pool

# The arguments of pg_restore_attribute_stats that are read from pg_stats, with their types.
STATISTICS: Final[tuple[tuple[str, str], ...]] = (
    ("null_frac", "real"),
    ("avg_width", "integer"),
    ("n_distinct", "real"),
    ("most_common_vals", "text"),
    ("most_common_freqs", "real[]"),
    ("histogram_bounds", "text"),
    ("correlation", "real"),
    ("most_common_elems", "text"),
    ("most_common_elem_freqs", "real[]"),
    ("elem_count_histogram", "real[]"),
)
_READ: Final = f"""
SELECT {", ".join(f"{name}::text" for name, _ in STATISTICS)} FROM pg_stats
WHERE schemaname = (SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()) AND tablename = 'pg_sluice_sample'
"""
_FIRST_OF_USERS: Final = 16384  # FirstNormalObjectId of transam.h
# Statistics with values in them, which would be read as the column's type.
_OF_VALUES: Final = (
    "most_common_vals",
    "most_common_freqs",
    "histogram_bounds",
    "most_common_elems",
    "most_common_elem_freqs",
    "elem_count_histogram",
)
# Whether the constraints of these types, or of their base types, contain anything of a user's.
_RUNS_CODE: Final = """
SELECT EXISTS (
    SELECT FROM unnest($1::bigint[]) u CROSS JOIN LATERAL pg_sluice.domains_of(u::oid) d
    JOIN pg_constraint k ON k.contypid = d AND k.contype = 'c'
    JOIN pg_depend p ON p.classid = 'pg_constraint'::regclass AND p.objid = k.oid
    WHERE p.refobjid >= 16384 AND NOT (p.refclassid = 'pg_type'::regclass AND p.refobjid = k.contypid))
"""
# Those of them that are values of the column's type.
_LISTS: Final = ("most_common_vals", "histogram_bounds")
_TYPE: Final = "SELECT format_type($1::bigint::oid, $2)"


async def column_statistics(pool: Pool, column: Column, values: Sequence[str | None]) -> dict[str, str | None]:
    """Return the statistics of a column's sampled values, given as PostgreSQL's text; none if ANALYZE finds none.

    The values of an enumeration are given as the places of its labels. Statistics that would run users' code are
    without any values.
    """
    own_types = [
        *([] if column.domain is None else [column.domain.oid]),
        *([] if column.user_array is None else [column.user_array.element_oid]),
    ]
    type_oid, typmod = (INT4, -1) if column.labels else (column.type_oid, column.typmod)
    if column.carried is not None:
        type_oid, typmod = TEXT, -1
    assert type_oid < _FIRST_OF_USERS
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            name = await connection.fetchval(_TYPE, type_oid, typmod)
            await connection.execute(f"CREATE TEMPORARY TABLE pg_sluice_sample (v {name})")
            await connection.execute(f"INSERT INTO pg_sluice_sample SELECT u::{name} FROM unnest($1::text[]) u", values)
            await connection.execute("ANALYZE pg_sluice_sample")
            row = await connection.fetchrow(_READ)
            runs_code = own_types and await connection.fetchval(_RUNS_CODE, own_types)
        finally:
            await transaction.rollback()
    found = {} if row is None else dict(row)
    if column.labels:
        found |= {name: _labelled(found[name], column.labels) for name in _LISTS if found.get(name) is not None}
    hidden = runs_code or column.carried  # its texts are no values, and have another order
    return {name: None if hidden and name in _OF_VALUES else value for name, value in found.items()}


def _labelled(places: str, labels: Sequence[Label]) -> str:
    """Return an array of labels, as text, for one of their places."""
    found = [labels[int(place)].text for place in places.strip("{}").split(",")]
    return "{" + ",".join('"{}"'.format(text.replace("\\", r"\\").replace('"', r"\"")) for text in found) + "}"
