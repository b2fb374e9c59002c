"""The locks that a block holds against others."""

from __future__ import annotations

import psycopg

from tests.servers import GatewayProcess

# What locks out who reads or writes rows (PostgreSQL documentation, "Explicit Locking").
_STRONG = """
SELECT mode FROM pg_locks WHERE pid = %s AND locktype = 'relation' AND relation = to_regclass(%s)
AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""


def locks(gateway_process: GatewayProcess, block: psycopg.Connection, table: str) -> list[str]:
    return locks_of(gateway_process, block.info.backend_pid, table)


def locks_of(gateway_process: GatewayProcess, process_id: int, table: str) -> list[str]:
    with psycopg.connect(gateway_process.catalog_url, autocommit=True) as catalog:
        return [mode for (mode,) in catalog.execute(_STRONG, [process_id, table])]
