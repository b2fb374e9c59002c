"""An impossible command fails with one clear line and a failure's exit code."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers import GatewayProcess, Server, free_port, open_directory, run_sluice

pytestmark = pytest.mark.soak


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a failed command, which must not be a traceback's."""
    assert done.returncode not in {0, -6, -9, -11}, done.stdout
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert not any(line.startswith("ready:") for line in said)
    return said[-1]


@pytest.fixture(scope="module")
def running() -> Iterator[GatewayProcess]:
    with open_directory("refused") as directory, GatewayProcess(directory / "data") as process:
        yield process


def serve(data_dir: Path, *arguments: str, port: int | None = None) -> subprocess.CompletedProcess[str]:
    listen = f"127.0.0.1:{free_port() if port is None else port}"
    return run_sluice("serve", "--data-dir", str(data_dir), "--listen", listen, *arguments)


def test_port_in_use(data_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = one_line(serve(data_dir, port=port))
    assert str(port) in line
    assert "in use" in line


def test_catalog_of_another_version(running: GatewayProcess, data_dir: Path) -> None:
    """A data directory whose PostgreSQL is of another major version."""
    (version,) = running.data_dir.glob("**/cluster/PG_VERSION")
    copied = data_dir / version.relative_to(running.data_dir)
    copied.parent.mkdir(parents=True)
    copied.write_text("17\n")
    line = one_line(serve(data_dir))
    assert "PostgreSQL 17" in line
    assert "PostgreSQL 18" in line


def test_catalog_with_a_wrong_password(oracle: Server, data_dir: Path) -> None:
    superuser = oracle.superuser
    superuser.psql("-qc", "CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'right'")
    hba = Path(superuser.query("SHOW hba_file")[0][0])
    rules = hba.read_text()
    try:
        hba.write_text(f"host all keeper 127.0.0.1/32 scram-sha-256\n{rules}")
        superuser.query("SELECT pg_reload_conf()")
        dsn = f"postgresql://keeper:wrong@{oracle.host}:{oracle.port}/{oracle.database}"
        line = one_line(serve(data_dir, "--catalog", dsn))
    finally:
        hba.write_text(rules)
        superuser.query("SELECT pg_reload_conf()")
        superuser.psql("-qc", "DROP ROLE keeper")
    assert "password authentication failed" in line
    assert "wrong" not in line.replace("wrong password", ""), "a password must not be printed"


def test_catalog_that_is_not_there(data_dir: Path) -> None:
    line = one_line(serve(data_dir, "--catalog", f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"))
    assert "127.0.0.1" in line


def test_wrong_password_of_a_client(running: GatewayProcess) -> None:
    """A role that has a password is asked for it: SCRAM-SHA-256, by the catalog's own rules."""
    server = running.server
    server.psql("-qc", "CREATE ROLE alice LOGIN PASSWORD 'right'")
    url = f"postgresql://alice:{{}}@{server.host}:{server.port}/{server.database}"
    with psycopg.connect(url.format("right")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("alice",)
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "alice"'):
        psycopg.connect(url.format("wrong"))
    with pytest.raises(psycopg.OperationalError, match=r'role "nobody_at_all" does not exist|authentication failed'):
        psycopg.connect(f"postgresql://nobody_at_all@{server.host}:{server.port}/{server.database}")


def test_unreadable_file(running: GatewayProcess) -> None:
    """A Parquet file that is gone or broken: an error for who reads it, and `sluice check` names it."""
    server = running.server
    server.psql("-qc", "CREATE TABLE broken AS SELECT n FROM generate_series(1, 1000) AS n")
    server.psql("-qc", "CREATE TABLE whole AS SELECT n FROM generate_series(1, 10) AS n")
    files = [path for path in running.data_dir.rglob("*.parquet") if path.parent.name.startswith("broken-")]
    assert files, "no Parquet file in the table's folder"
    for file in files:
        file.write_bytes(b"PAR1 this is no Parquet file PAR1")
    failed = server.psql("-v", "VERBOSITY=sqlstate", "-c", "SELECT sum(n) FROM broken", check=False)
    assert failed.returncode != 0
    assert failed.stderr.strip() in {"ERROR:  XX001", "ERROR:  58030"}
    assert server.query("SELECT sum(n) FROM whole") == [["55"]]
    running.stop()
    checked = run_sluice("check", "--data-dir", str(running.data_dir))
    running.start()
    assert checked.returncode != 0
    assert files[0].name in checked.stdout + checked.stderr
    server.psql("-qc", "DROP TABLE broken")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 96 MB, where this machine lets us mount one."""
    with open_directory("disk") as place:
        mount = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=0755", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("mounting a file system takes root and the right to mount")
        yield place
        subprocess.run(["umount", str(place)], check=True)


def test_full_disk(small_disk: Path) -> None:
    """The statement that fills the disk fails alone; what was there stays, and there is room again."""
    with GatewayProcess(small_disk / "data") as process:
        server = process.server
        server.psql("-qc", "CREATE TABLE kept AS SELECT n FROM generate_series(1, 1000) AS n")
        filler = small_disk / "filler"
        with filler.open("wb") as out:
            out.write(bytes(max(0, shutil.disk_usage(small_disk).free - (2 << 20))))
        large = "CREATE TABLE large AS SELECT n, md5(n::text) AS t FROM generate_series(1, 400000) AS n"
        failed = server.psql("-v", "VERBOSITY=sqlstate", "-c", large, check=False)
        assert failed.returncode != 0
        assert failed.stderr.strip() in {"ERROR:  53100", "ERROR:  58030"}
        filler.unlink()
        assert server.query("SELECT count(*) FROM kept") == [["1000"]]
        server.psql("-qc", "INSERT INTO kept VALUES (0)")
        assert server.query("SELECT count(*) FROM kept") == [["1001"]]
