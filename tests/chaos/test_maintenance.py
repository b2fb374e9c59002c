"""kill -9 in the middle of compaction and of VACUUM's removal of files.

No row is lost or doubled, no kept snapshot loses a file, and no file is left behind.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.chaos.test_kill import Kill, kill_gateway, kill_postgres, settled, with_ledger
from tests.chaos.workload import Statement, execute, totals
from tests.servers import GatewayProcess

pytestmark = pytest.mark.soak

_FILES = 25


@pytest.fixture(scope="module")
def process() -> Iterator[GatewayProcess]:
    with with_ledger("chaos-maintenance") as process:
        yield process


def fill(process: GatewayProcess, sort_by: str, partition_by: str) -> None:
    """Rows in many files, many of them deleted."""
    with psycopg.connect(process.server.url, autocommit=True) as connection:
        connection.execute("TRUNCATE ledger")
        layout = f"sluice.sort_by = '{sort_by}', sluice.partition_by = '{partition_by}'"
        connection.execute(f"ALTER TABLE ledger SET ({layout})".encode())
        for n in range(_FILES):
            connection.execute("INSERT INTO ledger SELECT g, %s, 'note ' || g FROM generate_series(1, 2000) g", [n])
        connection.execute("DELETE FROM ledger WHERE id %% 3 = 0 AND state < %s", [_FILES])


@pytest.mark.parametrize("kill", [kill_gateway, kill_postgres])
@pytest.mark.parametrize(
    ("statement", "retention", "layout"),
    [
        ("VACUUM FULL ledger", "7 days", ("", "")),
        ("VACUUM ledger", "0", ("", "")),
        ("VACUUM ledger", "0", ("id DESC, state", "")),
        ("VACUUM ledger", "0", ("", "bucket(3, id)")),
    ],
)
def test_in_the_middle(
    process: GatewayProcess, kill: Kill, statement: str, retention: str, layout: tuple[str, str]
) -> None:
    fill(process, *layout)
    server, count = process.server, 3 if layout[1] else 1
    server.psql("-qc", f"ALTER DATABASE {server.database} SET sluice.retention = '{retention}'")
    before = totals(server)
    ((snapshot,),) = server.query("SELECT max(snapshot_id) FROM pg_sluice.snapshots")
    running = Statement(lambda: execute(server, statement))
    time.sleep(random.uniform(0.05, 0.9))
    kill(process)
    running.wait()
    settled(process)
    server = process.server
    assert totals(server) == before
    if retention == "7 days":
        past = f"SET sluice.as_of = '{snapshot}'; SELECT count(*), sum(state) FROM ledger;"
        assert server.psql("-qAt", sql=past).stdout == "|".join(map(str, before)) + "\n"
    # What was interrupted is done by the next.
    execute(server, statement)
    assert totals(server) == before
    ((files,),) = server.query("SELECT files FROM pg_sluice.table_sizes WHERE relation = 'ledger'::regclass")
    assert int(files) == count
    if retention == "0":
        ((schema,),) = server.query("SELECT current_schema()")
        assert len(list((process.data_dir / "lake" / schema).rglob("*.parquet"))) == count
