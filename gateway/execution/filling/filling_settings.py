"""The settings that a statement has while rows of the lake are in shadows."""

from __future__ import annotations

from typing import Final

from gateway.backend.own_statement import Statement
from gateway.execution.reading.postgres_query import LIMIT

# To be asked before rows are copied: the settings that are changed meanwhile, those under which plans are printed, how
# much may be copied, the schema log's mark, and whether the session reads a past snapshot.
SETTINGS: Final = Statement(
    "SELECT pg_sluice.backend_setting('idle_in_transaction_session_timeout'),"
    " pg_sluice.backend_setting('max_parallel_workers_per_gather'),"
    " pg_sluice.backend_setting('client_min_messages'), pg_sluice.backend_setting('plan_cache_mode'),"
    f" pg_catalog.pg_size_bytes({LIMIT}), pg_sluice.schema_mark(),"
    " coalesce(pg_sluice.backend_setting('sluice.as_of', true), '') OPERATOR(pg_catalog.<>) ''"
)
_SET: Final = (
    "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true),"
    " pg_catalog.set_config('max_parallel_workers_per_gather', $2, true),"
    " pg_catalog.set_config('sluice.unchecked', $3, true)"
)


def set_while_filled(idle_timeout: bytes | None, workers: str | bytes | None, unchecked: str) -> Statement:
    """Set them until the savepoint around it is undone, or the transaction ends."""
    return Statement(_SET, (idle_timeout, workers, unchecked))
