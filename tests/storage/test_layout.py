"""Names sort by time and contain it."""

from __future__ import annotations

import time

import pytest

from storage.parquet import layout


def test_names_sort_by_the_time_they_were_made() -> None:
    first = layout.new_data_file()
    time.sleep(0.002)
    assert first < layout.new_data_file()


@pytest.mark.parametrize("name", [layout.new_data_file, layout.new_delete_file, layout.new_job_folder])
def test_a_name_tells_when_it_was_made(name: object) -> None:
    before = int(time.time() * 1000) / 1000
    born = layout.born_at(f"public/t/{name()}")  # type: ignore[operator]
    assert born is not None
    assert before <= born <= time.time()


def test_a_file_of_a_job_is_as_old_as_its_folder() -> None:
    assert layout.born_at(f"public/t/{layout.new_job_folder()}/_temporary/part-00000.parquet") is not None


@pytest.mark.parametrize("name", [layout.new_data_file, layout.new_delete_file, layout.new_job_folder])
def test_a_name_tells_who_made_it(name: object) -> None:
    assert layout.writer_of(f"public/t/{name()}") is None  # type: ignore[operator]
    layout.write_as(17)
    try:
        path = f"public/t/{name()}"  # type: ignore[operator]
    finally:
        layout.write_as(None)
    assert layout.writer_of(path) == 17
    assert layout.writer_of(f"{path}/part-00000.parquet") == 17
    assert layout.born_at(path) is not None


def test_foreign_names_tell_nothing() -> None:
    assert layout.born_at("public/t/ducklake-01a1f941-9997-7274-837c-768a6858a03d.parquet") is None
    assert layout.born_at("public/t/6ba7b810-9dad-11d1-80b4-00c04fd430c8.parquet") is None


def test_uuids_are_version_7() -> None:
    assert {(layout.new_uuid().version, layout.new_uuid().variant) for _ in range(100)} == {
        (7, "specified in RFC 4122")
    }


def test_paths_join_for_folders_and_urls() -> None:
    assert layout.join("/lake/", "public/t/", "f.parquet") == "/lake/public/t/f.parquet"
    assert layout.join("s3://bucket/lake", "public/t/", "f.parquet") == "s3://bucket/lake/public/t/f.parquet"
    assert layout.join("/", "t") == "/t"
    assert not layout.is_local("s3://bucket/lake")
    assert layout.local_path("file:///lake") == "/lake"
