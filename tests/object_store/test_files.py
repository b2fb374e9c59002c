"""The lake's files in an object store: written, read, removed, and what a faulty store makes of that."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import SluiceError
from storage.parquet.file_identity import Expected
from storage.parquet.files import LakeFiles
from storage.parquet.object_store import ObjectStore, StoreSettings, connect, duckdb_secret, spark_settings
from tests.object_store.conftest import DATA_PATH
from tests.object_store.s3_server import REGION, S3Server


@pytest.fixture
def connected(healthy: S3Server, tmp_path: Path) -> ObjectStore:
    """This process's connection, with copies of its own; objects of the tests before are gone."""
    healthy.clear()
    healthy.requests.clear()
    return connect(DATA_PATH, StoreSettings(healthy.endpoint, REGION, copies=tmp_path / "copies", attempts=3))


@pytest.fixture
def files(connected: ObjectStore) -> LakeFiles:
    return LakeFiles(f"{DATA_PATH}/")


def parquet(rows: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": np.random.default_rng(1).integers(0, 2**62, rows)}), sink, compression="none")
    return sink.getvalue()


def write(files: LakeFiles, path: str, rows: int = 1_000) -> Expected:
    content = parquet(rows)
    with files.output(path) as sink:
        sink.write(content)
    files.sync([path])
    return Expected(path, len(content), 0, rows)


def forget(connected: ObjectStore, path: str) -> None:
    """As if this were another gateway."""
    connected.copies.remove(path)


def rows(files: LakeFiles, of: Expected) -> int:
    with files.parquet(of) as found:
        return int(found.read().num_rows)


def refused(of: Expected, files: LakeFiles) -> tuple[str, str]:
    with pytest.raises(SluiceError) as raised:
        rows(files, of)
    return raised.value.sqlstate, raised.value.message


def test_what_is_synced_is_in_the_store(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    with files.output("t/a.parquet") as sink:
        sink.write(b"x" * 1_000)
    assert healthy.objects() == {}
    assert files.size("t/a.parquet") == 1_000
    files.sync(["t/a.parquet"])
    assert healthy.objects() == {"the/lake/t/a.parquet": 1_000}
    assert files.list() == {"t/a.parquet": 1_000}
    forget(connected, "t/a.parquet")
    assert files.size("t/a.parquet") == 1_000
    files.remove(["t/a.parquet", "t/never.parquet"])
    assert healthy.objects() == {}
    assert not list(connected.copies.folder.rglob("*.parquet"))


def test_a_small_file_takes_one_request_to_store_and_two_to_read(
    files: LakeFiles, connected: ObjectStore, healthy: S3Server
) -> None:
    of = write(files, "t/a.parquet")
    assert [request.method for request in healthy.requests] == ["PUT", "HEAD"], "the second compares sizes"
    healthy.requests.clear()
    assert rows(files, of) == 1_000
    assert healthy.requests == []
    forget(connected, of.path)
    assert rows(files, of) == rows(files, of) == 1_000
    assert [request.method for request in healthy.requests] == ["HEAD", "GET"]


def test_of_a_large_file_without_a_copy_parts_are_read(
    files: LakeFiles, connected: ObjectStore, healthy: S3Server
) -> None:
    of = write(files, "t/large.parquet", 1_500_000)
    assert of.size_bytes > 8 * 2**20
    forget(connected, of.path)
    with files.parquet(of) as found:
        assert found.metadata.num_rows == 1_500_000
    assert not connected.copies.has(of.path)
    with files.held([of]):
        assert Path(files.spark_path(of.path)).stat().st_size == of.size_bytes
    assert rows(files, of) == 1_500_000


def test_some_failures_are_tried_again(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    left = iter([503, 500])
    healthy.fault = lambda _: next(left, None)
    of = write(files, "t/a.parquet")
    forget(connected, of.path)
    left = iter([503, 500])
    assert rows(files, of) == 1_000


def test_a_store_that_goes_on_failing_is_an_error(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    of = write(files, "t/a.parquet")
    forget(connected, of.path)
    healthy.fault = lambda _: 403
    assert refused(of, files)[0] == "58030"
    with pytest.raises(SluiceError) as raised:
        write(files, "t/b.parquet")
    assert raised.value.sqlstate == "58030"
    assert "t/b.parquet" in raised.value.message
    healthy.heal()
    assert rows(files, of) == 1_000
    assert list(healthy.objects()) == ["the/lake/t/a.parquet"]


def test_an_answer_that_is_cut_off_is_no_answer(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    of = write(files, "t/a.parquet")
    forget(connected, of.path)
    cut = iter([True])
    healthy.cuts = lambda request: request.method == "GET" and next(cut, False)
    assert rows(files, of) == 1_000
    forget(connected, of.path)
    healthy.cuts = lambda request: request.method == "GET"
    assert refused(of, files)[0] == "58030"
    assert not list(connected.copies.folder.rglob("*.fetching"))


def test_an_exchanged_object_is_damage(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    of = write(files, "t/a.parquet")
    forget(connected, of.path)
    whole = healthy.body("the/lake/t/a.parquet")
    for body in (b"", whole[:-8], parquet(999)):
        healthy.replace("the/lake/t/a.parquet", body)
        sqlstate, message = refused(of, files)
        assert (sqlstate, f"it has {len(body)} bytes, but {len(whole)} by the catalog" in message) == ("XX001", True)
        with pytest.raises(SluiceError), files.held([of]):
            pass
    healthy.replace("the/lake/t/a.parquet", bytes(len(whole)))
    assert refused(of, files)[0] == "XX001"


def test_a_missing_object_is_an_error(files: LakeFiles) -> None:
    assert refused(Expected("t/none.parquet", 10, 0, 1), files) == (
        "58030",
        'could not access file "t/none.parquet": No such file or directory',
    )


def test_a_store_that_keeps_less_is_found_out(files: LakeFiles, healthy: S3Server) -> None:
    def shorten(request: object) -> None:
        if getattr(request, "method", "") == "HEAD":
            healthy.replace("the/lake/t/a.parquet", b"short")

    healthy.fault = shorten
    with pytest.raises(SluiceError) as raised:
        write(files, "t/a.parquet")
    assert raised.value.sqlstate == "58030"


def test_copying_ends_where_it_is_told_to(files: LakeFiles, connected: ObjectStore, healthy: S3Server) -> None:
    known = [write(files, f"t/{number}.parquet") for number in range(40)]
    for of in known:
        forget(connected, of.path)
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise SluiceError("57014", "canceling statement due to user request")

    healthy.seconds = 0.05
    began = time.monotonic()
    with pytest.raises(SluiceError) as raised, files.held(known, check=check):
        pass
    assert raised.value.sqlstate == "57014"
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("gs://bucket/lake", "neither a folder nor a URL like s3://bucket/prefix"),
        ("s3://key:secret@bucket/lake", "a URL with credentials is not taken"),
        ("s3://bucket/lake?secret_key=x", "not a URL like s3://bucket/prefix"),
        ("s3:///lake", "not a URL like s3://bucket/prefix"),
    ],
)
def test_which_urls_there_are(url: str, message: str) -> None:
    with pytest.raises(SluiceError, match=message) as raised:
        connect(url, StoreSettings())
    assert raised.value.sqlstate == "22023"
    assert "secret@" not in raised.value.message


def test_a_bucket_that_is_not_there(healthy: S3Server, tmp_path: Path) -> None:
    store = ObjectStore("s3://other-bucket/lake", StoreSettings(healthy.endpoint, REGION, copies=tmp_path / "copies"))
    with pytest.raises(SluiceError, match='bucket "other-bucket" does not exist'):
        store.check()


def test_what_spark_and_duckdb_are_told() -> None:
    settings = StoreSettings("http://127.0.0.1:9000", "eu-central-1")
    assert spark_settings(settings) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    }
    assert duckdb_secret(settings) == (
        "CREATE SECRET lake (TYPE s3, PROVIDER credential_chain, ENDPOINT '127.0.0.1:9000', URL_STYLE 'path', "
        "USE_SSL false, REGION 'eu-central-1');"
    )
    assert duckdb_secret(StoreSettings()) == "CREATE SECRET lake (TYPE s3, PROVIDER credential_chain);"
