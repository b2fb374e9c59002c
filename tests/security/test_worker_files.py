"""Files of Spark's workers, which no gateway has started."""

from __future__ import annotations

import stat

import psycopg
import pyarrow.parquet as pq

from tests.cluster.workers import LOOPBACK, Cluster
from tests.servers import GatewayProcess, open_directory

_ROWS = 20_000
_FEW = 1_000


def test_files_that_workers_write_are_closed_too() -> None:
    with open_directory("workers") as directory, Cluster(directory / "spark") as cluster:
        arguments = ("--spark", cluster.url)
        with GatewayProcess(directory / "data", arguments=arguments, environment=LOOPBACK) as gateway:
            with psycopg.connect(gateway.server.url, autocommit=True) as connection:
                connection.execute("CREATE TABLE near (id integer); CREATE TABLE far (id integer)")
                connection.execute(f"INSERT INTO near SELECT i FROM generate_series(1, {_ROWS}) AS i")
                # Spark holds a join that is no equality to be so large that it writes its rows itself.
                connection.execute(
                    "INSERT INTO far SELECT a.id FROM near a JOIN near b ON a.id BETWEEN b.id AND b.id"
                    f" WHERE b.id <= {_FEW}".encode()
                )
            lake = gateway.data_dir / "lake"
            files = [path for path in lake.rglob("*.parquet") if path.parent.name.startswith("far-")]
            assert sum(pq.read_metadata(path).num_rows for path in files) == _FEW
            assert {pq.read_metadata(path).created_by.split()[0] for path in files} == {"parquet-mr"}
            assert {stat.filemode(path.stat().st_mode) for path in files} == {"-rw-------"}
            assert {stat.filemode(path.stat().st_mode) for path in lake.rglob("*") if path.is_dir()} == {"drwx------"}
