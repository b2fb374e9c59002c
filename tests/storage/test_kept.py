"""A row spool returns its rows in any order, from memory and from disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from storage.spool.row_spool import KeptRows

_SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.list_(pa.string()))])


def _batch(first: int, count: int) -> pa.RecordBatch:
    return pa.record_batch(
        [list(range(first, first + count)), [[str(n), None] for n in range(first, first + count)]], schema=_SCHEMA
    )


def _kept(memory_bytes: int, first: int = 0) -> KeptRows:
    kept = KeptRows(_SCHEMA, first, memory_bytes)
    for size in (3, 0, 10, 1, 500):
        whole = _batch(kept.end - 2, size + 4)
        kept.append(whole.slice(2, size))  # a part of a batch is kept as what it is
    return kept


@pytest.mark.parametrize("memory_bytes", [0, 400, 10**9])
def test_any_rows_come_back(memory_bytes: int) -> None:
    kept = _kept(memory_bytes)
    assert (kept.end, kept.on_disk) == (514, memory_bytes < 10**9)
    for start, end in [(0, 514), (2, 5), (13, 14), (100, 101), (0, 3), (513, 514)]:
        found: list[int] = []
        while start + len(found) < end:
            piece = kept.after(start + len(found), end)
            assert piece.column(1).to_pylist() == [[str(n), None] for n in piece.column(0).to_pylist()]
            found += piece.column(0).to_pylist()
        assert found == list(range(start, end))
        back: list[int] = []
        while len(back) < end - start:
            back += kept.before(end - len(back), start).column(0).to_pylist()
        assert back == found[::-1]
    kept.close()


def test_rows_are_numbered_from_where_they_begin() -> None:
    kept = _kept(0, first=1000)
    assert kept.after(1002, 1003).column(0).to_pylist() == [1002]
    assert kept.before(1003, 1000).column(0).to_pylist() == [1002, 1001, 1000]
    kept.close()
