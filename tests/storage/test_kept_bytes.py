"""A byte spool returns its bytes, from memory and from disk."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

from catalog.errors import SluiceError
from storage.spool.byte_spool import KeptBytes


@pytest.mark.parametrize("memory_bytes", [0, 30, 10**9])
def test_any_of_them_come_back(memory_bytes: int) -> None:
    kept, data = KeptBytes(memory_bytes), bytes(range(100))
    for start in range(0, 100, 10):
        kept.append(data[start : start + 10])
        assert kept.read(3, 4) == data[3:7]
    assert (kept.size, kept.on_disk) == (100, memory_bytes < 100)
    assert kept.read(0, 1000) == data
    assert kept.read(95, 10) == data[95:]
    assert kept.read(100, 10) == b""
    kept.close()


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> IO[bytes]:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr("storage.spool.unread_rows.tempfile.TemporaryFile", full)
    kept = KeptBytes(10)
    kept.append(b"few")
    with pytest.raises(SluiceError) as raised:
        kept.append(b"too many of them")
    assert raised.value.sqlstate == "53100"
    kept.close()
