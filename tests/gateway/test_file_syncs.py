"""COMMIT waits until a statement's new files survive a loss of power."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.servers import GatewayProcess, open_directory

# Python runs this as it starts: a sync takes as long as the file `slow` exists, and fails while `failing` does.
_FAULT = """
import pathlib, time
from catalog.errors import SluiceError, SqlState
from storage.parquet.files import LakeFiles
here, sync = pathlib.Path(__file__).parent, LakeFiles.sync
def faulty(self, paths):
    while (here / "slow").exists():
        time.sleep(0.01)
    if (here / "failing").exists():
        raise SluiceError(SqlState.IO_ERROR, "the disk is broken")
    sync(self, paths)
LakeFiles.sync = faulty
"""
_CHANGES = (
    "INSERT INTO t VALUES (10)",
    "INSERT INTO t SELECT n FROM generate_series(20, 30) g (n)",
    "UPDATE t SET id = id + 100",
    "DELETE FROM t WHERE id = 1",
    "MERGE INTO t USING (VALUES (1)) v (i) ON id = i WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (i)",
    "INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 60",
    "INSERT INTO t SELECT id + 1000 FROM t",
    "DELETE FROM t WHERE id > 0",
)


@dataclass(frozen=True)
class Disk:
    """A gateway and the folder of its faults."""

    process: GatewayProcess
    faults: Path

    def files(self) -> list[Path]:
        return sorted(self.process.data_dir.rglob("*.parquet"))


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with open_directory("syncs") as directory:
        (directory / "sitecustomize.py").write_text(_FAULT)
        with GatewayProcess(directory / "data", environment={"PYTHONPATH": str(directory)}) as process:
            yield Disk(process, directory)


@pytest.fixture
def client(disk: Disk) -> Iterator[psycopg.Connection]:
    options = "-c sluice.hot_rows=0"  # those need no file
    with psycopg.connect(disk.process.server.url, autocommit=True, options=options) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        yield connection
        connection.execute("DROP TABLE t")


def _rows(client: psycopg.Connection) -> list[tuple[int, ...]]:
    return client.execute("SELECT id FROM t ORDER BY id").fetchall()


@pytest.mark.turns
@pytest.mark.parametrize("in_block", [False, True])
@pytest.mark.parametrize("change", _CHANGES)
def test_what_cannot_be_synced_is_not_committed(
    disk: Disk, client: psycopg.Connection, change: str, in_block: bool
) -> None:
    before, files = _rows(client), disk.files()
    (disk.faults / "failing").touch()
    try:
        if in_block:
            client.execute("BEGIN")
            client.execute(change.encode())
        with pytest.raises(psycopg.OperationalError, match="the disk is broken") as raised:
            client.execute(b"COMMIT" if in_block else change.encode())
    finally:
        (disk.faults / "failing").unlink()
    assert raised.value.sqlstate == "58030"
    assert _rows(client) == before
    assert disk.files() == files
    client.execute(change.encode())
    assert _rows(client) != before


def test_a_rolled_back_statement_does_not_fail(disk: Disk, client: psycopg.Connection) -> None:
    files = disk.files()
    (disk.faults / "failing").touch()
    try:
        client.execute("BEGIN; INSERT INTO t VALUES (3); ROLLBACK")
    finally:
        (disk.faults / "failing").unlink()
    assert disk.files() == files


def test_nobody_sees_a_row_whose_file_is_not_synced(disk: Disk, client: psycopg.Connection) -> None:
    slow = disk.faults / "slow"
    slow.touch()
    with ThreadPoolExecutor() as threads, psycopg.connect(disk.process.server.url, autocommit=True) as other:
        try:
            inserted = threads.submit(client.execute, "INSERT INTO t VALUES (4)")
            end = time.monotonic() + 1
            while time.monotonic() < end:
                assert _rows(other) == [(1,), (2,)]
            assert not inserted.done()
        finally:
            slow.unlink()
        inserted.result()
        assert _rows(other) == [(1,), (2,), (4,)]
