"""The settings of maintenance, by name: for the whole lake and all gateways.

PostgreSQL keeps them: `ALTER DATABASE … SET sluice.retention = '30 days'` holds for all gateways from then on. A
session's own SET has no effect. `pg_sluice.maintenance_settings` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from catalog.errors import SluiceError, SqlState
from catalog.postgres.pool import Pool

# name → type in PostgreSQL, default, description. The rows of `pg_sluice.maintenance_setting` are made of these.
SETTINGS: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("sluice.retention", "interval", "7 days", "How long the lake can be read as it was."),
    ("sluice.maintenance_interval", "interval", "1 minute", "How often a gateway looks for what is due; 0 for never."),
    ("sluice.hot_rows_age", "interval", "1 hour", "Hot rows of this age are written to a file."),
    ("sluice.compaction_min_files", "int4", "8", "As many small files of about one size are merged."),
    ("sluice.compaction_small_bytes", "int8", str(128 * 2**20), "A file of fewer bytes is a small one."),
    ("sluice.compaction_file_bytes", "int8", str(256 * 2**20), "Files become about as large as this."),
    ("sluice.compaction_waste", "float8", "0.2", "A file is written anew that has lost this share of rows or columns."),
    ("sluice.compaction_rest", "float8", "1", "A gateway rests for so many times as long as a merge took."),
)
_DATA_EXCEPTION: Final = "22"
_VALUES: Final = "SELECT name, value FROM pg_sluice.maintenance_settings"
_SECONDS: Final = "SELECT extract(epoch FROM $1::text::interval)::float8"


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """The settings in force. `retention` and `hot_rows_age` are PostgreSQL's texts of intervals."""

    retention: str
    interval_seconds: float
    hot_rows_age: str
    min_files: int
    small_bytes: int
    file_bytes: int
    waste: float
    rest: float


async def maintenance_settings(pool: Pool) -> MaintenanceSettings:
    """Read the settings from the catalog; 22023 for an invalid value."""
    found = {row["name"].removeprefix("sluice."): row["value"] for row in await pool.fetch(_VALUES)}
    try:
        await pool.fetchval(_SECONDS, found["retention"])
        await pool.fetchval(_SECONDS, found["hot_rows_age"])
        return MaintenanceSettings(
            retention=found["retention"],
            interval_seconds=await pool.fetchval(_SECONDS, found["maintenance_interval"]),
            hot_rows_age=found["hot_rows_age"],
            min_files=int(found["compaction_min_files"]),
            small_bytes=int(found["compaction_small_bytes"]),
            file_bytes=int(found["compaction_file_bytes"]),
            waste=float(found["compaction_waste"]),
            rest=float(found["compaction_rest"]),
        )
    except (ValueError, SluiceError) as error:
        if isinstance(error, SluiceError) and not error.sqlstate.startswith(_DATA_EXCEPTION):
            raise
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"a setting of maintenance is wrong: {error}") from error
