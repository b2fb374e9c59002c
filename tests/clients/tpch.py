"""TPC-H: its schema as PostgreSQL takes it, and its data from tpchgen-cli. Source: TPC-H specification, clause 1.4."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUERIES = Path(__file__).parents[1] / "golden" / "tpch"
TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")

SCHEMA = (QUERIES / "schema.sql").read_text()

# What keeps plain PostgreSQL from taking minutes over correlated subqueries. Answers do not depend on it.
ORACLE_INDEXES = """\
CREATE INDEX ON lineitem (l_orderkey);
CREATE INDEX ON lineitem (l_partkey, l_suppkey);
CREATE INDEX ON partsupp (ps_partkey, ps_suppkey);
CREATE INDEX ON orders (o_orderkey);
CREATE INDEX ON orders (o_custkey);
ANALYZE;
"""


def generate(directory: Path, scale: float) -> Path:
    """Write `<table>.csv`, with a header each, at this scale factor (1 is 6 million lines of lineitem)."""
    directory.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(program), "csv", "--scale-factor", str(scale), "--output-dir", str(directory), "--overwrite"]
    subprocess.run(command, check=True, capture_output=True)
    return directory


def copy_command(table: str, directory: Path) -> str:
    r"""psql's `\copy` of one table."""
    return f"\\copy {table} from '{directory / table}.csv' with (format csv, header)"


def query_files() -> list[Path]:
    """The 22 queries with the parameters of the specification's validation run, in order."""
    return sorted(QUERIES.glob("q*.sql"))
