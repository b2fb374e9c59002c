"""A spill returns its rows, from memory and from disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from catalog.errors import SluiceError
from storage.spool.spill import Spill

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


def test_a_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spill, "limit_bytes", 100 * 1024)
    batch = pa.record_batch([[1] * 1000, [None] * 1000], schema=_SCHEMA)
    spill = Spill(_SCHEMA, memory_bytes=0)
    for _ in range(3):
        spill.write(batch)
    with pytest.raises(SluiceError, match=r'^temporary file size exceeds "temp_file_limit" \(100kB\)$') as caught:
        spill.write(pa.concat_batches([batch] * 20))
    assert caught.value.sqlstate == "53400"
