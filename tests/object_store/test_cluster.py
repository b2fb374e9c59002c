"""A cluster reads an object store itself, by Hadoop's `s3a`.

Hadoop's own client needs a jar that comes from no package. In its place stands Hadoop's file system of links
(ViewFileSystemOverloadScheme), which takes URLs of any scheme: here `s3a://…`, to a folder with the same files.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.cluster.workers import LOOPBACK, Cluster
from tests.object_store.conftest import DATA_PATH, store_options
from tests.object_store.s3_server import BUCKET, S3Server
from tests.servers import GatewayProcess, open_directory

pytestmark = pytest.mark.soak


def _mirror(s3: S3Server, folder: Path) -> None:
    for key in s3.objects():
        place = folder / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(s3.body(key))


def test_executors_read_by_s3a(healthy: S3Server) -> None:
    with open_directory("s3a") as directory, Cluster(directory / "cluster") as cluster:
        jar, folder = directory / "hadoop-aws-0.jar", directory / "mirror"
        with zipfile.ZipFile(jar, "w") as empty:
            empty.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        settings = {
            "spark.jars": str(jar),
            "spark.hadoop.fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
            f"spark.hadoop.fs.viewfs.mounttable.{BUCKET}.link./the": f"file://{folder}/the",
        }
        options = [f"--spark-conf={name}={value}" for name, value in settings.items()]
        arguments = (f"--spark={cluster.url}", "--data-path", DATA_PATH, *store_options(healthy), *options)
        with GatewayProcess(directory / "data", arguments=arguments, environment=LOOPBACK) as process:
            server = process.server
            server.psql("-qc", "CREATE TABLE t AS SELECT i AS n, i % 10 AS g FROM generate_series(1, 50000) i")
            _mirror(healthy, folder)
            server.psql("-qc", "SET sluice.hot_rows = 0; DELETE FROM t WHERE n <= 100")
            _mirror(healthy, folder)
            question = "SET sluice.engine = 'spark'; SELECT g, count(*), sum(n)::bigint FROM t GROUP BY g ORDER BY g"
            numbers = {g: range(100 + (g or 10), 50_001, 10) for g in range(10)}
            answer = [[str(g), str(len(each)), str(sum(each))] for g, each in numbers.items()]
            assert server.query(question) == answer
            assert not list(process.data_dir.glob("copies-*/**/*.fetching"))
            plan = str(server.query("SET sluice.engine = 'spark'; EXPLAIN (VERBOSE) SELECT g FROM t ORDER BY n"))
            assert "s3a://" in plan
            server.psql("-qc", "SET sluice.engine = 'spark'; CREATE TABLE u AS SELECT n FROM t WHERE g = 3")
            assert server.query("SELECT count(*) FROM u") == [["4990"]]
