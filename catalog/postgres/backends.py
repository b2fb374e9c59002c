"""Which of PostgreSQL's backends: process numbers are used again, in a container by every start of PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Whether a backend (number, start) is there no more.
GONE: Final = "SELECT pg_sluice.backend_started($1) IS DISTINCT FROM $2"


@dataclass(frozen=True, slots=True)
class BackendId:
    """`started` is when, in microseconds since 1970 by the catalog's clock."""

    process_id: int
    started: int
