"""Arrays of the gateway's own statements: few values are written like many."""

from __future__ import annotations

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from gateway.values import binary
from tests.servers import Server


@given(st.lists(st.none() | st.binary(max_size=20), max_size=8))
def test_a_few_are_as_many(values: list[bytes | None]) -> None:
    array = pa.array(values, pa.binary())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binary, "_FEW_MAX", -1)
        many = binary.binary_array(array, datatypes.BYTEA)
    assert binary.binary_array(array, datatypes.BYTEA) == many


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_bigints(numbers: list[int]) -> None:
    assert binary.bigint_array(np.array(numbers, np.int64)) == binary.binary_array(
        pa.array(numbers, pa.int64()), datatypes.INT8
    )


def test_postgres_reads_them(oracle: Server) -> None:
    texts: list[str | None] = ["", None, "ü", '{,\\"}']
    with psycopg.connect(oracle.url, autocommit=True) as connection:
        raw = binary.binary_array(pa.array(texts, pa.string()), datatypes.TEXT)
        written = connection.execute("SELECT array_send(%s::text[])", (texts,)).fetchone()
        assert written == (raw,)
        assert connection.execute("SELECT array_send(%s::bigint[])", ([7, -1],)).fetchone() == (
            binary.bigint_array(np.array([7, -1])),
        )
        assert connection.execute("SELECT array_send('{}'::bigint[])").fetchone() == (
            binary.bigint_array(np.array([], np.int64)),
        )
