"""Claims: what a transaction holds, until it ends, of rows and keys that it is about to write.

Whoever claims the same waits for its end; PostgreSQL finds the deadlocks (catalog/sql).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from catalog.datatypes import BY_OID, BYTEA, INT8
from gateway.backend import Statement
from gateway.values.binary import binary_cells

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.exchange import Exchange

_CLAIM_ROWS: Final = "SELECT pg_sluice.claim_rows($1, $2::bigint::oid, $3::bigint[], $4::bigint[])"
_CLAIM_TABLE: Final = "SELECT pg_sluice.claim_table($1, $2::bigint::oid)"
_CLAIM_KEYS: Final = "SELECT pg_sluice.claim_keys($1, $2::bigint::oid, $3::bytea[])"
# A statement that replaces more rows than this claims the table as a whole; one that writes more claims no keys.
CLAIMS_MAX: Final = 10_000


async def claim_rows(session: Exchange, oid: int, rows: Mapping[int, npt.NDArray[np.int64]]) -> None:
    """Claim rows of a table, by the ID of their data file."""
    token = session.gateway.token
    if sum(map(len, rows.values())) > CLAIMS_MAX:
        await session.backend.run(Statement(_CLAIM_TABLE, (token, str(oid))))
        return
    files = np.repeat(np.fromiter(rows, np.int64), [len(each) for each in rows.values()])
    positions = np.concatenate(list(rows.values()))
    parameters = (token, str(oid), _array(pa.array(files), INT8), _array(pa.array(positions, pa.int64()), INT8))
    await session.backend.run(Statement(_CLAIM_ROWS, parameters, parameter_formats=(0, 0, 1, 1)))


async def claim_keys(session: Exchange, constraint_oid: int, keys: pa.Array) -> None:
    """Claim keys (storage.keys) of a constraint."""
    parameters = (session.gateway.token, str(constraint_oid), _array(keys, BYTEA))
    await session.backend.run(Statement(_CLAIM_KEYS, parameters, parameter_formats=(0, 0, 1)))


def _array(values: pa.Array, type_oid: int) -> bytes:
    """An array of PostgreSQL's in its binary form."""
    array = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    [cell] = binary_cells(array, BY_OID[type_oid].array_oid)
    form: bytes = cell.as_py()
    return form
