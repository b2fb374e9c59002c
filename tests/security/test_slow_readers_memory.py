"""Clients that ask for many wide rows at once and do not read them: these do not fill Spark's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from tests.servers import GatewayProcess, open_directory

_ROWS = 400_000
_MANY = 10
_HEAP = "-Xmx640m"  # of rows of 270 bytes, each asks for a sixth of it


@pytest.fixture
def process() -> Iterator[GatewayProcess]:
    """A gateway whose Spark has little memory, with a table that compresses well, so that its partitions are large."""
    with (
        open_directory("wide") as directory,
        GatewayProcess(directory / "data", environment={"_JAVA_OPTIONS": _HEAP}) as process,
    ):
        process.server.psql(
            "-qc",
            f"CREATE TABLE much AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, {_ROWS}) n",
        )
        yield process


def test_many_that_ask_for_wide_rows_do_not_end_spark(process: GatewayProcess) -> None:
    with ExitStack() as opened:
        readers = [psycopg.connect(process.server.url, autocommit=True) for _ in range(_MANY)]
        for reader in readers:
            opened.enter_context(closing(reader))
            reader.pgconn.send_query(b"SELECT * FROM much")
        with psycopg.connect(process.server.url, autocommit=True) as other:
            for _ in range(3):
                grouped = other.execute("SELECT n % 10, count(*) FROM much GROUP BY 1").fetchall()
                assert sorted(grouped) == [(number, _ROWS // 10) for number in range(10)]
    log = Path(process.data_dir / "spark.log").read_text(errors="replace")
    assert "OutOfMemoryError" not in log
