"""Hot rows are written to files in the background, beside writers; DuckLake's views of them go with its snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.forks import ask_sluice
from tests.maintenance.conftest import connect
from tests.servers import GatewayProcess, Server, open_directory
from tests.witness import Witness

pytestmark = pytest.mark.turns(together=True)

_SETTINGS = {
    "sluice.retention": "7 days",
    "sluice.hot_rows_age": "0",
    "sluice.maintenance_interval": "50 ms",
    "sluice.compaction_min_files": "2",
    "sluice.compaction_rest": "0",
}


@pytest.fixture(scope="module")
def flushing() -> Iterator[GatewayProcess]:
    """Hot rows are old at once."""
    with open_directory("flushing") as directory, GatewayProcess(directory / "data", maintenance=True) as process:
        for name, value in _SETTINGS.items():
            _set(process.server, name, value)
        yield process
        checked = ask_sluice("check", "--data-dir", str(process.data_dir))
        assert checked.stdout == "the lake is consistent\n"


@pytest.fixture
def server(flushing: GatewayProcess) -> Server:
    return flushing.server


def _set(server: Server, name: str, value: str) -> None:
    server.psql("-qc", f"ALTER DATABASE {server.database} SET {name} = '{value}'")


def _until(reached: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_few_rows_become_a_file_with_time(server: Server, flushing: GatewayProcess) -> None:
    with connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE aged (id integer PRIMARY KEY, v text)")
        connection.execute("INSERT INTO aged VALUES (1, 'one')")
        folder = flushing.data_dir / "lake" / "public"
        _until(lambda: len(list(folder.glob("aged-*/*.parquet"))) == 1, "one row is never written to a file")
        assert connection.execute("SELECT * FROM aged WHERE id = 1").fetchall() == [(1, "one")]
        witness = Witness(flushing.data_dir)
        newest = witness.snapshot()
        for snapshot in (newest - 1, newest):
            assert witness.table("public.aged", snapshot) == [(1, "one")]
        witness.close()
        connection.execute("DROP TABLE aged")


def test_beside_writers_no_row_changes(server: Server, flushing: GatewayProcess) -> None:
    with connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE busy (id integer PRIMARY KEY, n integer NOT NULL)")
        connection.execute("INSERT INTO busy SELECT g, 0 FROM generate_series(1, 8) g")
    enough, failed, done = threading.Event(), list[BaseException](), [0] * 4

    def write(number: int) -> None:
        try:
            with connect(server, autocommit=True) as mine:
                while not enough.is_set():
                    mine.execute("UPDATE busy SET n = n + 1 WHERE id = %s", [done[number] % 8 + 1])
                    mine.execute("INSERT INTO busy VALUES (%s, 0)", [1_000 * (number + 1) + done[number]])
                    done[number] += 1
        except psycopg.Error as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for each in writers:
        each.start()
    try:
        with psycopg.connect(flushing.catalog_url, autocommit=True) as catalog:
            compactions = "SELECT FROM pg_ducklake.ducklake_snapshot_changes WHERE changes_made LIKE 'compacted_table%'"
            before = len(catalog.execute(compactions).fetchall())
            _until(
                lambda: bool(failed) or len(catalog.execute(compactions).fetchall()) > before + 5,
                "too little is written to files meanwhile",
            )
    finally:
        enough.set()
        for each in writers:
            each.join()
    assert not failed
    with connect(server, autocommit=True) as connection:
        totals = connection.execute("SELECT count(*), sum(n) FROM busy").fetchone()
        assert totals == (8 + sum(done), sum(done))
        witness = Witness(flushing.data_dir)
        assert witness.rows(f"SELECT count(*), sum(n) FROM {witness.lake}.public.busy") == [totals]
        witness.close()
        connection.execute("DROP TABLE busy")


def test_views_go_with_the_last_snapshot_that_knows_them(server: Server, flushing: GatewayProcess) -> None:
    with connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE brief (id integer)")
        connection.execute("INSERT INTO brief VALUES (1), (2)")
        connection.execute("ALTER TABLE brief ADD v text DEFAULT 'x'")
        connection.execute("INSERT INTO brief VALUES (3)")
        connection.execute("VACUUM FULL brief")
        connection.execute("DELETE FROM brief WHERE id = 1")

        with psycopg.connect(flushing.catalog_url, autocommit=True) as catalog:
            [[table]] = catalog.execute(
                "SELECT table_id FROM pg_ducklake.ducklake_table WHERE table_name = 'brief' AND end_snapshot IS NULL"
            ).fetchall()

            def views() -> list[str]:
                rows = catalog.execute(
                    "SELECT relname FROM pg_class WHERE relnamespace = 'pg_ducklake'::regnamespace AND relkind = 'v'"
                    f" AND relname ~ '^ducklake_inlined_(data|delete)_{table}(_|$)' ORDER BY relname"
                ).fetchall()
                return [name for (name,) in rows]

            assert [name.partition(f"_{table}")[0] for name in views()] == [
                "ducklake_inlined_data", "ducklake_inlined_data", "ducklake_inlined_delete",
            ]  # fmt: skip
            _set(server, "sluice.retention", "0")
            _until(lambda: len(views()) == 2, "the view of the former version is kept")
            assert connection.execute("SELECT * FROM brief ORDER BY id").fetchall() == [(2, "x"), (3, "x")]
            connection.execute("DROP TABLE brief")
            _until(lambda: not views(), "the views of a dropped table are kept")
            registered = catalog.execute(
                f"SELECT FROM pg_ducklake.ducklake_inlined_data_tables WHERE table_id = {table}"
            ).fetchall()
            assert not registered
            _set(server, "sluice.retention", _SETTINGS["sluice.retention"])
