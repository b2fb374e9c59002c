"""What a transaction has done to shadows: `pg_sluice.shadow_touches` as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.backend.connection import Result

TOUCHES: Final = "SELECT relid, scans, added, replaced, made, truncated FROM pg_sluice.shadow_touches($1::bigint)"


@dataclass(frozen=True, slots=True)
class Touch:
    """How often a transaction has scanned a shadow, how many rows it has added, and how many it has changed or
    deleted. `made`: the statement's own table, without rows in the lake. `truncated`: functions have truncated it, and
    the numbers are those until then.
    """

    scans: int = 0
    added: int = 0
    replaced: int = 0
    made: bool = False
    truncated: bool = False


def touches(result: Result) -> dict[int, Touch]:
    """The answer to `TOUCHES`, by the table's OID."""
    return {
        int(relid or 0): Touch(int(scans or 0), int(added or 0), int(replaced or 0), made == b"t", truncated == b"t")
        for relid, scans, added, replaced, made, truncated in result.rows
    }
