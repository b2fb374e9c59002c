"""The identity of a backend: process number and start time.

Process numbers are used again; in a container, by every start of PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Whether a backend (number, start) has ended.
GONE: Final = "SELECT pg_sluice.backend_started($1) IS DISTINCT FROM $2"


@dataclass(frozen=True, slots=True)
class BackendId:
    """A backend. `started` is its start in microseconds since 1970, by the catalog's clock."""

    process_id: int
    started: int
