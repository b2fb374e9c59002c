"""A gateway's files on disk are readable by its own user only, whatever wrote them and whatever was allowed before."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers import SLUICE, GatewayProcess, open_directory, run_sluice

_ROWS = 20_000
_FEW = 1_000
_WRITTEN_SECONDS_MAX = 30.0
# Spark holds a join to be as large as the product of its sides, unless it is by equality; so it writes this itself.
_WRITTEN_BY_SPARK = f"""
    INSERT INTO far SELECT a.id, a.name FROM near a JOIN near b ON a.id BETWEEN b.id AND b.id WHERE b.id <= {_FEW}
"""


@contextmanager
def _no_umask() -> Iterator[None]:
    """Whoever starts a gateway may have none."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def worked() -> Iterator[tuple[GatewayProcess, Path]]:
    """A gateway that has done everything which leaves files, and the folder of its temporary ones."""
    with open_directory("modes") as directory:
        directory.chmod(0o700)
        temporary = directory / "temporary"
        temporary.mkdir()
        data = directory / "data"
        # As an earlier version has left it.
        for folder in (data, data / "lake"):
            folder.mkdir()
            folder.chmod(0o755)
        environment = {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}"}
        process = GatewayProcess(data, environment=environment, program=(str(SLUICE),))
        with ExitStack() as stack:
            with _no_umask():
                stack.enter_context(process)
            _work(process)
            yield process, temporary


def _work(process: GatewayProcess) -> None:
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        connection.execute("SET sluice.hot_rows = 0")
        connection.execute("CREATE TABLE near (id integer, name text)")
        connection.execute("CREATE TABLE far (id integer, name text)")
        connection.execute("INSERT INTO far VALUES (-1, 'one'), (-2, 'two')")
        connection.execute(f"INSERT INTO near SELECT i, 'name ' || i FROM generate_series(1, {_ROWS}) AS i")
        connection.execute(_WRITTEN_BY_SPARK.encode())
        with connection.cursor() as cursor, cursor.copy("COPY far FROM STDIN") as copy:
            copy.write("-3\tthree\n")
        connection.execute("DELETE FROM near WHERE id = 7")
        connection.execute("UPDATE near SET name = 'other' WHERE id = 8")
        connection.execute("CREATE INDEX near_id ON near (id)")
        assert connection.execute("SELECT count(*), sum(id) FROM far").fetchone() == (
            _FEW + 3,
            _FEW * (_FEW + 1) // 2 - 6,
        )


def _everything(folder: Path) -> dict[Path, os.stat_result]:
    found = {folder: folder.lstat()}
    for path in folder.rglob("*"):
        try:
            found[path] = path.lstat()
        except FileNotFoundError:  # a temporary file of PostgreSQL's or Spark's, gone meanwhile
            continue
    return found


def _open_to_others(folder: Path) -> dict[str, str]:
    """What others than its owner may do something with; a link's own mode says nothing."""
    return {
        str(path.relative_to(folder)): stat.filemode(status.st_mode)
        for path, status in _everything(folder).items()
        if not stat.S_ISLNK(status.st_mode) and stat.S_IMODE(status.st_mode) & 0o077
    }


def _check_lake(lake: Path) -> None:
    for path, status in _everything(lake).items():
        expected = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600
        assert stat.S_IMODE(status.st_mode) == expected, path


def _writer(path: Path) -> str | None:
    """The library that wrote it; None if the gateway, which works in the background too, has given it up meanwhile."""
    deadline = time.monotonic() + _WRITTEN_SECONDS_MAX
    while path.exists():
        try:
            return str(pq.read_metadata(path).created_by).split()[0]
        except pa.ArrowInvalid:  # it is being written
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    return None


def test_files_of_the_lake(worked: tuple[GatewayProcess, Path]) -> None:
    """Written by pyarrow and by Spark: rows, deleted positions, sidecars of indexes."""
    process, _ = worked
    lake = process.data_dir / "lake"
    files = [path for path in lake.rglob("*.parquet") if not path.name.startswith(".")]
    writers = set(map(_writer, files)) - {None}
    assert writers == {"parquet-cpp-arrow", "parquet-mr"}
    assert any(path.name.endswith("-delete.parquet") for path in files)
    assert any(path.parent.name.startswith("index-") for path in files)
    _check_lake(lake)


def test_files_of_compaction(worked: tuple[GatewayProcess, Path]) -> None:
    process, _ = worked
    lake = process.data_dir / "lake"
    before = set(lake.rglob("*.parquet"))
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        connection.execute("VACUUM (FULL) near, far")
        connection.execute("REINDEX INDEX near_id")  # at once, not when the gateway comes to it
    assert set(lake.rglob("*.parquet")) - before
    _check_lake(lake)


def test_the_data_directory(worked: tuple[GatewayProcess, Path]) -> None:
    """Catalog, sockets, certificate and key, logs, locks; also after other commands."""
    process, _ = worked
    with _no_umask():
        done = run_sluice("check", "--data-dir", str(process.data_dir))
    assert done.returncode == 0, done.stdout + done.stderr
    names = {path.name for path in process.data_dir.rglob("*")}
    assert {"PG_VERSION", ".s.PGSQL.5432", "postgres.log", "spark.log", "server.key", "gateway.lock"} <= names
    assert _open_to_others(process.data_dir) == {}


def test_temporary_files(worked: tuple[GatewayProcess, Path]) -> None:
    """Of the gateway, of its JVM (libraries that it unpacks), and of Spark's shuffles."""
    process, temporary = worked
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        connection.execute("SELECT name, count(*) FROM near GROUP BY name ORDER BY 2, 1")
    inside = {path: status for path, status in _everything(temporary).items() if path != temporary}
    assert any(path.name.startswith("sluice-spark-") for path in inside)
    assert any(stat.S_ISREG(status.st_mode) for status in inside.values())
    # What has a name in the folder is closed, and with it all that is in it.
    assert {path.name: status.st_mode for path, status in inside.items() if status.st_mode & 0o077} == {}


def test_files_without_names(worked: tuple[GatewayProcess, Path]) -> None:
    """Rows that a cursor keeps, and those that a client has not read yet: whoever finds them among the files that the
    processes hold open may not open them either."""
    process, _ = worked
    with psycopg.connect(process.server.url) as connection:
        connection.execute(
            f"DECLARE c SCROLL CURSOR FOR SELECT a.name, repeat(b.name, 50) FROM near a JOIN near b ON b.id <= {_FEW}"
            f" WHERE a.id <= 2 * {_FEW}".encode()
        )
        connection.execute("MOVE FORWARD 500000 FROM c")
        found = {
            path: status
            for number in (process.process.pid, *process.children)
            for path, status in _held_open(number)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0
        }
        assert any("/sluice-" in path for path in found), found
        assert {path for path, status in found.items() if stat.S_IMODE(status.st_mode) & 0o077} == set()


def _held_open(number: int) -> Iterator[tuple[str, os.stat_result]]:
    for each in (Path("/proc") / str(number) / "fd").iterdir():
        try:
            yield str(each.readlink()), each.stat()
        except FileNotFoundError:  # closed meanwhile
            continue


def test_the_jvm_gives_nothing_away_either(worked: tuple[GatewayProcess, Path]) -> None:
    process, _ = worked
    [java] = [number for number, command in process.children.items() if command == "java"]
    status = Path(f"/proc/{java}/status").read_text()
    assert "Umask:\t0077\n" in status


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_a_folder_that_is_roots_alone(worked: tuple[GatewayProcess, Path]) -> None:
    """PostgreSQL, which does not run as root, works below a folder that it cannot pass; all else there is root's."""
    process, _ = worked
    above = process.data_dir.parent
    assert (above.stat().st_uid, stat.S_IMODE(above.stat().st_mode)) == (0, 0o700)
    owners = {path: status.st_uid for path, status in _everything(process.data_dir).items()}
    [postgres] = {uid for path, uid in owners.items() if process.data_dir / "catalog" in (path, *path.parents)}
    assert postgres != 0
    assert {uid for path, uid in owners.items() if process.data_dir / "catalog" not in (path, *path.parents)} == {0}
    denied = subprocess.run(
        ["/bin/ls", str(process.data_dir)], user=postgres, group=pwd.getpwuid(postgres).pw_gid, extra_groups=[],
        capture_output=True, check=False,
    )  # fmt: skip
    assert denied.returncode != 0
