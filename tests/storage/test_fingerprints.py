"""Fingerprints: equal keys have one number, and a file is read once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import datatypes
from catalog.errors import SluiceError, SqlState
from catalog.model import Table
from storage.indexes import fingerprints as module
from storage.indexes import keys
from storage.indexes.fingerprints import WANTED_MAX, Fingerprints, can_be_kept, fingerprints, fingerprints_of_file
from storage.indexes.keys import LiveFile, find, keys_of
from storage.parquet import file_rows
from tests.storage.lake import rows, table, write


def _find(data_path: Path, live: list[LiveFile], of: Table, wanted: list[int]) -> list[tuple[int, int]]:
    columns = [of.column(1)]
    given_keys = keys_of(columns, [pa.array(wanted, pa.int32())])
    found = find(str(data_path), of, columns, live, given_keys, [])
    return sorted(zip(found.positions.tolist(), (wanted[n] for n in found.wanted), strict=True))


@given(st.lists(st.binary(max_size=12)), st.integers(0, 5), st.integers(1, 20))
def test_the_same_key_has_the_same_number_wherever_it_is(values: list[bytes], skipped: int, piece: int) -> None:
    whole = fingerprints(pa.array(values, pa.binary()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE_BYTES", piece)
        assert fingerprints(pa.array(values, pa.binary()).slice(skipped)).tolist() == whole[skipped:].tolist()
    assert [int(fingerprints(pa.array([value]))[0]) for value in values] == whole.tolist()


def test_short_keys_have_numbers_of_their_own() -> None:
    """No two of a million integers, nor of strings of zero bytes, however long."""
    integers = pa.array(np.arange(1_000_000)).cast(pa.string()).cast(pa.binary())
    zeros = pa.array([bytes(count) for count in range(100)])
    assert len(np.unique(np.concatenate([fingerprints(integers), fingerprints(zeros)]))) == 1_000_100


@given(st.lists(st.sampled_from([None, b"", b"a", b"b", b"ab", b"ba"])), st.sets(st.sampled_from([b"", b"a", b"ab"])))
def test_places(values: list[bytes | None], wanted: set[bytes]) -> None:
    """All rows with a wanted key, however many have it; NULL is no key."""

    def read() -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
        for first in range(0, len(values), 3):
            yield np.arange(first, min(first + 3, len(values))), pa.array(values[first : first + 3], pa.binary())

    kept = fingerprints_of_file(object(), read)
    expected = [place for place, value in enumerate(values) if value in wanted]
    assert kept.places(pa.array(sorted(wanted), pa.binary())).tolist() == expected


def test_a_file_is_read_once_and_then_where_such_rows_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (keys, file_rows):
        monkeypatch.setattr(reader, "is_small", lambda _: False)
    of = table(id=datatypes.INT4)
    version = write(tmp_path, of, rows(of, (1,), (None,), (2,), (2,)))
    live = [LiveFile(version.files[0])]
    assert _find(tmp_path, live, of, [2, 7]) == [(2, 2), (3, 2)]
    (tmp_path / of.path / version.files[0].path).write_bytes(bytes(version.files[0].size_bytes))
    assert _find(tmp_path, live, of, [7, 8]) == []
    with pytest.raises(SluiceError) as raised:
        _find(tmp_path, live, of, [1])
    assert raised.value.sqlstate == SqlState.DATA_CORRUPTED


def test_what_is_kept_does_not_hide_that_the_file_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (keys, file_rows):
        monkeypatch.setattr(reader, "is_small", lambda _: False)
    of = table(id=datatypes.INT4)
    version = write(tmp_path, of, rows(of, (1,), (2,)))
    live = [LiveFile(version.files[0])]
    assert _find(tmp_path, live, of, [7]) == []
    (tmp_path / of.path / version.files[0].path).write_bytes(b"")
    with pytest.raises(SluiceError, match="has 0 bytes") as raised:
        _find(tmp_path, live, of, [7])
    assert raised.value.sqlstate == SqlState.DATA_CORRUPTED


def test_keys_that_share_a_number_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (keys, file_rows):
        monkeypatch.setattr(reader, "is_small", lambda _: False)
    monkeypatch.setattr(module, "fingerprints", lambda found: np.zeros(len(found), np.uint64))
    of = table(id=datatypes.INT4)
    live = [LiveFile(file) for file in write(tmp_path, of, rows(of, (1,), (2,), (3,))).files]
    assert _find(tmp_path, live, of, [2, 7]) == [(1, 2)]


def test_those_that_want_one_file_at_the_same_time_read_it_once() -> None:
    reads, both = list[int](), threading.Barrier(2)
    found: list[Fingerprints] = []

    def read() -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
        reads.append(1)
        yield np.arange(1), pa.array([b"x"])

    identity = object()

    def want() -> None:
        both.wait()
        found.append(fingerprints_of_file(identity, read))

    threads = [threading.Thread(target=want) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reads) == 1
    assert found[0] is found[1]


def test_what_is_too_much_is_looked_for_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for reader in (keys, file_rows):
        monkeypatch.setattr(reader, "is_small", lambda _: False)
    monkeypatch.setattr(keys, "fingerprints_of_file", None)
    of = table(id=datatypes.INT4)
    live = [LiveFile(file) for file in write(tmp_path, of, rows(of, (1,), (2,))).files]
    assert _find(tmp_path, live, of, [2, *range(3, WANTED_MAX + 3)]) == [(1, 2)]
    monkeypatch.setattr(module, "_KEPT_BYTES_MAX", 12)
    assert can_be_kept(1)
    assert not can_be_kept(2)
    assert _find(tmp_path, live, of, [2]) == [(1, 2)]
    monkeypatch.setattr(module, "_KEPT_BYTES_MAX", 24)
    assert can_be_kept(2)
    both = [*live, *(LiveFile(file) for file in write(tmp_path, of, rows(of, (3,))).files)]
    assert _find(tmp_path, both, of, [1]) == [(0, 1)], "one of them would drive the other out"
