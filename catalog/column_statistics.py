"""What PostgreSQL's own ANALYZE says of sampled values.

They are put into a temporary table of the gateway's, a column at a time, analysed there, and the table is gone again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from catalog.pool import Pool

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
_TYPE: Final = "SELECT format_type($1::bigint::oid, $2)"


async def column_statistics(
    pool: Pool, type_oid: int, typmod: int, values: Sequence[str | None]
) -> dict[str, str | None]:
    """The statistics of a column's sampled values, given as PostgreSQL's text; none where it finds none."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            name = await connection.fetchval(_TYPE, type_oid, typmod)
            await connection.execute(f"CREATE TEMPORARY TABLE pg_sluice_sample (v {name})")
            await connection.execute(f"INSERT INTO pg_sluice_sample SELECT u::{name} FROM unnest($1::text[]) u", values)
            await connection.execute("ANALYZE pg_sluice_sample")
            row = await connection.fetchrow(_READ)
        finally:
            await transaction.rollback()
    return {} if row is None else dict(row)
