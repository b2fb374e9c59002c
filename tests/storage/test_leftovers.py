"""Orphan files of dead gateways are removed, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catalog import datatypes
from storage.maintenance.orphan_files import remove_leftovers, written_by
from storage.parquet import layout
from storage.parquet.files import LakeFiles
from tests.storage.lake import rows, table, write

_OF = table(a=datatypes.INT4)


@contextmanager
def writing_as(number: int) -> Iterator[None]:
    layout.write_as(number)
    try:
        yield
    finally:
        layout.write_as(None)


def test_only_unpublished_files_of_those_that_are_gone(tmp_path: Path) -> None:
    with writing_as(1):
        published = write(tmp_path, _OF, rows(_OF, (1,)))
        write(tmp_path, _OF, rows(_OF, (2,)))
        job = tmp_path / _OF.path / layout.new_job_folder() / "_temporary" / "part-0.parquet"
    job.parent.mkdir(parents=True)
    job.write_bytes(b"half")
    with writing_as(2):
        write(tmp_path, _OF, rows(_OF, (3,)))
    write(tmp_path, _OF, rows(_OF, (4,)))
    before = set(LakeFiles(str(tmp_path)).list())
    assert len(before) == 5
    kept = {layout.join(_OF.path, file.path) for file in published.files}
    written = written_by(str(tmp_path), {1, 7})
    assert set(written) == {path for path in before if layout.writer_of(path) == 1}
    assert remove_leftovers(str(tmp_path), written, kept) == 2
    left = set(LakeFiles(str(tmp_path)).list())
    assert left == {path for path in before if layout.writer_of(path) != 1} | kept
    assert not job.parent.parent.exists()
    assert remove_leftovers(str(tmp_path), written_by(str(tmp_path), {1, 7}), kept) == 0
    assert written_by(str(tmp_path / "nothing"), {1}) == []
