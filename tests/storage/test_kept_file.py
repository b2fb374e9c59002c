"""Spools for clients have a limit on disk, and the largest is given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import SluiceError
from storage.spool.byte_spool import KeptBytes
from storage.spool.row_spool import KeptRows
from storage.spool.spool_file import KeptFile
from storage.spool.unread_rows import UnreadSpace

_LIMIT = 1_000_000


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnreadSpace]:
    made = UnreadSpace(tmp_path / "unread", _LIMIT)
    monkeypatch.setattr(KeptFile, "space", made)
    yield made
    assert made.used == 0


def _on_disk(folder: Path) -> int:
    """The bytes of this process's open files in the folder, which have no names."""
    size = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            size += entry.stat().st_size if entry.readlink().is_relative_to(folder) else 0
        except OSError:
            continue  # the one that lists them
    return size


def test_who_keeps_the_most_is_given_up(space: UnreadSpace, tmp_path: Path) -> None:
    little, much = KeptBytes(0), KeptRows(pa.schema([("a", pa.binary())]), memory_bytes=0)
    little.append(b"few")
    row = pa.record_batch({"a": pa.array([os.urandom(100_000)])})
    for _ in range(_LIMIT // 100_000 - 1):
        much.append(row)
    with pytest.raises(SluiceError, match="exceed the gateway's limit") as raised:
        much.append(row)
    assert raised.value.sqlstate == "53400"
    assert _on_disk(tmp_path) == len(b"few")
    with pytest.raises(SluiceError, match="exceed the gateway's limit"):
        much.after(0, 1)
    assert little.read(0, 10) == b"few"
    little.append(b" more")
    assert little.read(0, 10) == b"few more"
    much.close()
    little.close()


def test_what_is_closed_gives_its_space_back(space: UnreadSpace) -> None:
    for _ in range(20):
        kept = KeptBytes(0)
        kept.append(bytes(_LIMIT // 2))
        assert space.used == _LIMIT // 2
        kept.close()
