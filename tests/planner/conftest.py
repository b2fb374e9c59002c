"""The differential tests' laboratories: one with the probes' tables, one with TPC-H."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.postgres.embedded import EmbeddedPostgres
from tests.planner.differential import Laboratory, spark_session

GOLDEN = Path(__file__).parent.parent / "golden"
PROBE_TABLES = (
    "integers", "floats", "decimals", "texts", "booleans", "binaries", "dates", "intervals", "uuids", "lists",
    "documents", "moods",
)  # fmt: skip
TPCH_TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")


@pytest.fixture(scope="session")
def probes(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """The tables of golden/probe_tables.sql on both sides."""
    laboratory = Laboratory(postgres.dsn, spark_session(), tmp_path_factory.mktemp("probes"), "probes")
    laboratory.postgres.execute((GOLDEN / "probe_tables.sql").read_text())
    for name in PROBE_TABLES:
        laboratory.load(name)
    yield laboratory
    laboratory.close()


@pytest.fixture(scope="session")
def tpch(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """TPC-H at scale factor 0.01 on both sides."""
    folder = tmp_path_factory.mktemp("tpch")
    generator = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([str(generator), "-s", "0.01", "-o", str(folder)], check=True, stdout=subprocess.DEVNULL)
    laboratory = Laboratory(postgres.dsn, spark_session(), folder, "tpch")
    laboratory.postgres.execute((GOLDEN / "tpch" / "schema.sql").read_text())
    for name in TPCH_TABLES:
        lines = (folder / f"{name}.tbl").read_bytes().replace(b"|\n", b"\n")
        with laboratory.postgres.cursor().copy(f"COPY {name} FROM STDIN (DELIMITER '|')") as copy:
            copy.write(lines)
    # Without it PostgreSQL takes a minute for query 20.
    laboratory.postgres.execute("CREATE INDEX ON lineitem (l_partkey, l_suppkey); ANALYZE")
    for name in TPCH_TABLES:
        laboratory.load(name)
    yield laboratory
    laboratory.close()
