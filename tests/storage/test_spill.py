"""What was written comes back, from memory and from the disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from storage.spill import Spill

_SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])


@pytest.mark.parametrize("memory_bytes", [0, 20_000, 10**9])
def test_batches_come_back_in_order(memory_bytes: int) -> None:
    batches = [pa.record_batch([[number] * 100, [["x", None]] * 100], schema=_SCHEMA) for number in range(50)]
    spill = Spill(_SCHEMA, memory_bytes)
    for batch in batches:
        spill.write(batch)
    with spill.reader() as reader:
        assert reader.schema == _SCHEMA
        assert reader.read_all() == pa.Table.from_batches(batches)


def test_nothing_comes_back_as_nothing() -> None:
    with Spill(_SCHEMA).reader() as reader:
        assert reader.read_all().num_rows == 0
