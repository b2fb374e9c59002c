"""Claims keys that a transaction is about to write, until it ends.

Another transaction that claims the same key waits for that end; PostgreSQL finds deadlocks (catalog/sql/keys.sql).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from catalog.datatypes import BYTEA
from gateway.backend.connection import Statement
from gateway.backend.own_message import own
from gateway.values.binary import binary_array

if TYPE_CHECKING:
    from gateway.session.session_context import SessionContext

_CLAIM_KEYS: Final = own("SELECT pg_sluice.claim_keys($1::bigint::pg_catalog.oid, $2::pg_catalog.bytea[])")
# A statement that writes more rows than this claims no keys.
CLAIMS_MAX: Final = 10_000


async def claim_keys(session: SessionContext, keys: Iterable[tuple[int, pa.Array]]) -> None:
    """Claim keys (storage.indexes.keys) of constraints, each with its OID, in this order."""
    claims = [
        Statement(_CLAIM_KEYS, (str(oid), binary_array(each, BYTEA)), parameter_formats=(0, 1), lasting=True)
        for oid, each in keys
    ]
    if claims:
        async with session.transaction.deferred.stepping_out():
            await session.backend.run(*claims)
