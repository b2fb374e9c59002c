"""Claims keys that a transaction is about to write, until it ends.

Another transaction that claims the same key waits for that end; PostgreSQL finds deadlocks (catalog/sql/keys.sql).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import BYTEA
from gateway.backend import catalog_calls
from gateway.session.newest_versions import NewestVersions
from gateway.values.binary import binary_array

if TYPE_CHECKING:
    from catalog.model import Table
    from gateway.session.session_context import SessionContext

# A statement that writes more rows than this claims no keys.
CLAIMS_MAX: Final = 10_000


async def claim_keys(
    session: SessionContext, table: Table, keys: Iterable[tuple[int, pa.Array]]
) -> NewestVersions | None:
    """Claim keys (storage.indexes.keys) of the table's constraints, each with its OID, in this order.

    Returns what the same round trip has told of the table as it is then.
    """
    claims = [catalog_calls.claim_keys(oid, binary_array(each, BYTEA)) for oid, each in keys]
    if not claims:
        return None
    newest = NewestVersions.of(session, [table.oid])
    asked = [] if newest is None else [newest.statement]
    async with session.transaction.deferred.stepping_out():
        *_, last = await session.backend.run(*claims, *asked)
    if newest is not None:
        newest.take(last)
    return newest
