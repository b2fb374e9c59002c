"""Compaction changes no row, at no snapshot, and disturbs no reader or writer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from catalog.store import Store
from tests.maintenance.conftest import connect, files_of, retain
from tests.servers import GatewayProcess, Server, open_directory
from tests.witness import Witness

_EVERYTHING = "SELECT * FROM item ORDER BY id"


def fill(server: Server) -> None:
    """Small files, deleted and updated rows, columns that came and went."""
    with connect(server, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE item (id integer PRIMARY KEY, name text, gone text, price numeric(10,2), tags text[],"
            " took interval)"
        )
        for first in range(0, 60, 10):
            connection.execute(
                "INSERT INTO item SELECT n, 'name ' || n, repeat('x', 500), n / 4.0, ARRAY['a', 'b'],"
                " n * interval '1 day'"
                " FROM generate_series(%s::integer, %s::integer) n",
                [first, first + 9],
            )
        connection.execute("UPDATE item SET price = price + 1 WHERE id % 7 = 0")
        connection.execute("DELETE FROM item WHERE id % 5 = 0")
        connection.execute(
            "ALTER TABLE item DROP COLUMN gone, ADD COLUMN kind text DEFAULT 'plain', ADD COLUMN n bigint"
        )
        connection.execute("INSERT INTO item (id, name) VALUES (100, 'after')")


def test_rows_stay_as_they_are(lake: Server, kept: GatewayProcess) -> None:
    fill(lake)
    before = lake.query(_EVERYTHING)
    ((newest,),) = lake.query("SELECT max(snapshot_id) FROM pg_sluice.snapshots")
    said = lake.psql("-c", "VACUUM (VERBOSE) item")
    assert " became 1, of 49 rows" in said.stderr, said.stderr
    assert files_of(lake, "item") == 1
    assert lake.query(_EVERYTHING) == before
    ((deleted,),) = lake.query("SELECT deleted_rows FROM pg_sluice.table_sizes WHERE relation = 'item'::regclass")
    assert deleted == "0"
    # What the lake was, it still is.
    past = connect(lake, autocommit=True)
    past.execute(f"SET sluice.as_of = '{newest}'".encode())
    assert past.execute("SELECT count(*), sum(price) FROM item").fetchone() == lake_totals(lake)
    past.close()
    # Nothing is due any more, so nothing happens.
    assert " 0 files became 0," in lake.psql("-c", "VACUUM (VERBOSE) item").stderr


def lake_totals(server: Server) -> tuple[object, ...] | None:
    with connect(server) as connection:
        return connection.execute("SELECT count(*), sum(price) FROM item").fetchone()


@pytest.mark.turns
def test_duckdb_reads_the_same_at_every_snapshot(lake: Server, kept: GatewayProcess) -> None:
    ((schema,),) = lake.query("SELECT current_schema()")
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (id integer, name text, price numeric(10,2))")
        seen = []
        witness = Witness(kept.data_dir)

        def look() -> None:
            rows = connection.execute("SELECT * FROM item ORDER BY 1, 2").fetchall()
            seen.append((witness.snapshot(), rows))

        for n in range(12):
            connection.execute(
                "INSERT INTO item SELECT n, 'x' || n, n FROM generate_series(1, 50) n WHERE n %% 12 = %s", [n]
            )
            look()
        connection.execute("DELETE FROM item WHERE id % 3 = 0")
        look()
        for statement in ("VACUUM item", "UPDATE item SET name = 'y' WHERE id < 20", "VACUUM FULL item"):
            connection.execute(statement.encode())
            look()
        for snapshot, rows in seen:
            assert witness.table(f"{schema}.item", snapshot) == rows, snapshot
        assert len({snapshot for snapshot, _ in seen}) == len(seen)
        witness.close()


def test_files_without_live_rows_go(lake: Server) -> None:
    lake.psql(
        "-q", sql="CREATE TABLE item (id integer); INSERT INTO item SELECT generate_series(1, 100); DELETE FROM item;"
    )
    assert files_of(lake, "item") == 1
    lake.psql("-qc", "VACUUM item")
    assert files_of(lake, "item") == 0
    assert lake.query("SELECT count(*) FROM item") == [["0"]]


@pytest.mark.turns
@pytest.mark.parametrize(
    "holding",
    [
        "UPDATE item SET name = 'mine' WHERE id = 1",
        "DELETE FROM item WHERE id = 1",
        "SELECT * FROM item WHERE id = 1 FOR UPDATE",
        "SELECT * FROM item WHERE id = 1 FOR KEY SHARE",
    ],
)
def test_it_gives_way_to_who_has_locked_rows(lake: Server, holding: str) -> None:
    """They are named by file and position, and stay there until the transaction ends."""
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (id integer PRIMARY KEY, name text)")
        for n in range(4):
            connection.execute("INSERT INTO item VALUES (%s, 'first')", [n])
    with connect(lake) as holder, connect(lake, autocommit=True) as other:
        holder.execute(holding.encode())
        said: list[str] = []
        other.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
        for _ in range(3):  # on a busy machine it may give way to its own commits before
            other.execute("VACUUM (VERBOSE) item")
            if any(gave_way := ["are left, for rows of the table are locked" in line for line in said]):
                break
        assert any(gave_way), said
        assert files_of(lake, "item") >= 4
        with connect(lake, autocommit=True) as third, pytest.raises(psycopg.errors.LockNotAvailable):
            third.execute("SELECT * FROM item WHERE id = 1 FOR UPDATE NOWAIT")
        holder.commit()
        other.execute("VACUUM item")
        assert files_of(lake, "item") == 1


def test_a_key_that_is_referred_to_holds_it_off(lake: Server) -> None:
    lake.psql(
        "-q",
        sql="CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE child (parent integer REFERENCES parent);"
        "INSERT INTO parent VALUES (1); INSERT INTO parent VALUES (2);",
    )
    with connect(lake) as holder, connect(lake, autocommit=True) as other:
        holder.execute("INSERT INTO child VALUES (1)")
        other.execute("VACUUM parent")
        assert files_of(lake, "parent") == 2
        other.execute("SET lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("DELETE FROM parent WHERE id = 1")
        holder.commit()
        other.execute("VACUUM parent")
        assert files_of(lake, "parent") == 1
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            other.execute("DELETE FROM parent WHERE id = 1")


def test_serializable_does_not_take_it_for_a_change(lake: Server) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (id integer)")
        connection.execute("INSERT INTO item VALUES (1)")
        connection.execute("INSERT INTO item VALUES (2)")
    with connect(lake) as strict:
        strict.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        assert strict.execute("SELECT count(*) FROM item").fetchone() == (2,)
        lake.psql("-qc", "VACUUM item")
        assert files_of(lake, "item") == 1
        strict.execute("INSERT INTO item VALUES (3)")
        strict.commit()
    # A change beside compaction is one all the same.
    with connect(lake) as strict:
        strict.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        assert strict.execute("SELECT count(*) FROM item").fetchone() == (3,)
        lake.psql("-qc", "INSERT INTO item VALUES (4)")
        lake.psql("-qc", "VACUUM item")
        strict.execute("INSERT INTO item VALUES (5)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            strict.commit()


async def test_it_gives_way_to_a_change_of_the_schema(lake: Server, kept: GatewayProcess) -> None:
    lake.psql("-q", sql="CREATE TABLE item (id integer); INSERT INTO item VALUES (1); INSERT INTO item VALUES (2);")
    oid = int(lake.query("SELECT 'item'::regclass::oid")[0][0])
    store = Store(kept.catalog_url)
    await store.open()
    turn = await store.take_turn(oid)
    assert turn is not None
    assert await store.take_turn(oid) is None, "one at a time"
    version = (await store.versions([oid]))[oid]
    with connect(lake) as changing:
        changing.execute("ALTER TABLE item ADD COLUMN number serial")
        changing.execute("RESET ALL")  # the change is not deferred beside this: its rows are written anew, and stay put
        assert await turn.publish(version.table, version.files, ()) == "rows of the table are locked"
        said = await asyncio.to_thread(lake.psql, "-c", "VACUUM (SKIP_LOCKED) item")
        assert 'skipping vacuum of "item" --- lock not available' in said.stderr
        changing.commit()
    assert await turn.publish(version.table, version.files, ()) == "the table's schema has changed"
    await turn.close()
    await store.close()
    lake.psql("-qc", "INSERT INTO item VALUES (3)")
    assert files_of(lake, "item") == 2, "those that the change has written anew as one, and the next"
    assert lake.query("SELECT count(*) FROM item") == [["3"]]
    lake.psql("-qc", "VACUUM item")
    assert files_of(lake, "item") == 1


@pytest.mark.turns
def test_it_goes_on_beside_a_change_that_is_deferred(lake: Server) -> None:
    lake.psql("-q", sql="CREATE TABLE item (id integer); INSERT INTO item VALUES (1); INSERT INTO item VALUES (2);")
    with connect(lake) as changing:
        changing.execute("ALTER TABLE item ADD COLUMN name text DEFAULT 'none'")
        lake.psql("-qc", "VACUUM item")
        assert files_of(lake, "item") == 1
        changing.execute("UPDATE item SET name = 'one' WHERE id = 1")
        changing.commit()
    assert lake.query("SELECT * FROM item ORDER BY id") == [["1", "one"], ["2", "none"]]


def _until(done: Callable[[], bool], work: Callable[[], None], failures: list[Exception]) -> None:
    try:
        while not done() and not failures:
            work()
    except Exception as error:  # noqa: BLE001  the test raises it
        failures.append(error)


@pytest.mark.turns
@pytest.mark.parametrize("seconds", [6, pytest.param(25, marks=pytest.mark.soak)])
def test_writers_and_readers_never_notice(lake: Server, seconds: float) -> None:
    """READ COMMITTED sessions update, delete, lock and count, while files are merged all the time: no error, no row
    lost, none twice, and no queue looks empty."""
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE counter (id integer PRIMARY KEY, n integer)")
        connection.execute("CREATE TABLE job (id integer PRIMARY KEY)")
        connection.execute("INSERT INTO counter SELECT g, 0 FROM generate_series(1, 4) g")
        connection.execute("INSERT INTO job SELECT generate_series(1, 1000)")
    failures: list[Exception] = []
    added, taken, merges = [0], [0], [0]
    connections = [connect(lake, autocommit=True) for _ in range(5)]

    def add(connection: psycopg.Connection, number: int) -> Callable[[], None]:
        def work() -> None:
            connection.execute("UPDATE counter SET n = n + 1 WHERE id = %s", [number])
            connection.execute("UPDATE counter SET n = n + 1 WHERE id = 4")
            added[0] += 2

        return work

    def count() -> None:
        assert connections[2].execute("SELECT count(*) FROM counter").fetchone() == (4,)

    def take() -> None:
        query = "DELETE FROM job WHERE id = (SELECT id FROM job LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        assert len(connections[3].execute(query).fetchall()) == 1, "the queue looked empty"
        taken[0] += 1

    def merge() -> None:
        connections[4].execute("VACUUM counter")
        connections[4].execute("VACUUM FULL job")
        merges[0] += 1
        time.sleep(0.5)

    begun = time.monotonic()

    def done() -> bool:
        """After a while, and when everybody has got somewhere; a busy machine may take long for that."""
        taking = time.monotonic() - begun
        return (taking > seconds and min(added[0], taken[0], merges[0]) > 0) or taking > 120

    works = [add(connections[0], 1), add(connections[1], 2), count, take, merge]
    threads = [threading.Thread(target=_until, args=(done, work, failures)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for connection in connections:
        connection.close()
    assert not failures, failures
    assert min(added[0], taken[0], merges[0]) > 0, "they came to nothing"
    assert lake.query("SELECT sum(n) FROM counter") == [[str(added[0])]]
    assert lake.query("SELECT count(*), count(DISTINCT id) FROM job") == [[str(1000 - taken[0])] * 2]


@pytest.mark.turns
@pytest.mark.parametrize("hot_rows", [0, 100])
def test_writers_who_never_pause_do_not_hold_it_off(lake: Server, kept: GatewayProcess, hot_rows: int) -> None:
    """There is always a transaction with locks of rows, and always a file that has changed since it was read."""
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE counter (id integer PRIMARY KEY, n integer)")
        connection.execute("INSERT INTO counter SELECT g, 0 FROM generate_series(1, 500) g")
    failures: list[Exception] = []
    enough, updated = threading.Event(), [0] * 4
    connections = [connect(lake, autocommit=True) for _ in updated]

    def update(number: int) -> Callable[[], None]:
        connection = connections[number]
        connection.execute("SELECT set_config('sluice.hot_rows', %s, false)", [str(hot_rows)])

        def work() -> None:
            connection.execute("UPDATE counter SET n = n + 1 WHERE id = %s", [updated[number] % 3 + 1])
            updated[number] += 1

        return work

    works = [update(number) for number in range(4)]
    threads = [threading.Thread(target=_until, args=(enough.is_set, work, failures)) for work in works]
    for thread in threads:
        thread.start()
    try:
        for command in ("VACUUM (FULL, VERBOSE) counter", "VACUUM (VERBOSE) counter", "VACUUM (FULL, VERBOSE) counter"):
            said = lake.psql("-qc", command).stderr
            assert "others are left" not in said, said
            assert " 0 files became" not in said or "FULL" not in command, said
            time.sleep(0.2)
    finally:
        enough.set()
        for thread in threads:
            thread.join(60)
        for connection in connections:
            connection.close()
    assert not failures, failures
    assert lake.query("SELECT count(*), sum(n) FROM counter") == [["500", str(sum(updated))]]
    [[schema]] = lake.query("SELECT current_schema()")
    witness = Witness(kept.data_dir)
    assert witness.rows(f"SELECT count(*), sum(n) FROM {witness.lake}.{schema}.counter") == [(500, sum(updated))]
    witness.close()


@pytest.mark.turns
def test_full_and_cluster(lake: Server) -> None:
    with connect(lake, autocommit=True) as connection:
        connection.execute("CREATE TABLE item (id integer PRIMARY KEY, name text)")
        for n in (3, 1, 2):
            connection.execute(
                "INSERT INTO item SELECT g, 'n' || g FROM generate_series(%s::int, 3000, 3) g ORDER BY g DESC", [n]
            )
        before = connection.execute("SELECT * FROM item ORDER BY id").fetchall()
        connection.execute("VACUUM FULL item")
        assert files_of(lake, "item") == 1
        assert connection.execute("SELECT * FROM item ORDER BY id").fetchall() == before
        assert connection.execute("SELECT id FROM item LIMIT 1").fetchone() != (1,)
        connection.execute("CLUSTER item USING item_pkey")
        assert files_of(lake, "item") == 1
        assert connection.execute("SELECT id FROM item").fetchall() == [(n,) for n in range(1, 3001)]
        connection.execute("INSERT INTO item VALUES (0, 'least')")
        connection.execute("CLUSTER")
        assert connection.execute("SELECT id FROM item LIMIT 2").fetchall() == [(0,), (1,)]
    with connect(lake) as block:
        block.execute("SELECT 1")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            block.execute("CLUSTER item")


@pytest.mark.turns
def test_the_background() -> None:
    """A gateway that is left to itself merges what piles up, and lets go of what is past the retention."""
    with open_directory("background") as directory, GatewayProcess(directory / "data", maintenance=True) as process:
        server = process.server
        server.psql("-qc", f"ALTER DATABASE {server.database} SET sluice.maintenance_interval = '200ms'")
        retain(server, "1 second")
        server.psql("-qc", "CREATE TABLE item (id integer)")
        with connect(server, autocommit=True) as connection:
            for n in range(20):
                connection.execute("INSERT INTO item VALUES (%s)", [n])
        deadline = time.monotonic() + 60
        while files_of(server, "item") > 8 or len(list(process.data_dir.rglob("lake/**/*.parquet"))) > 8:
            assert time.monotonic() < deadline, process.output
            time.sleep(0.2)
        assert server.query("SELECT count(*), sum(id) FROM item") == [["20", "190"]]
        # Where many files come at once, it does not wait until it is time.
        server.psql("-qc", f"ALTER DATABASE {server.database} SET sluice.maintenance_interval = '1 day'")
        server.psql("-q", sql="INSERT INTO item VALUES (1);" * 260)
        deadline = time.monotonic() + 60
        while files_of(server, "item") > 8:
            assert time.monotonic() < deadline, process.output
            time.sleep(0.2)
        assert server.query("SELECT count(*), sum(id) FROM item") == [["280", "450"]]
        assert process.lines == [line for line in process.lines if "Traceback" not in line]


def test_one_that_waits_can_be_ended(lake: Server) -> None:
    """VACUUM FULL waits for who has locked rows: until it is cancelled, or its time is up. Nothing is left of it."""
    lake.psql("-q", sql="CREATE TABLE item (id integer); INSERT INTO item VALUES (1); INSERT INTO item VALUES (2);")
    with connect(lake) as holder, connect(lake, autocommit=True) as other:
        holder.execute("SELECT * FROM item WHERE id = 1 FOR UPDATE")
        threading.Timer(2.0, other.cancel).start()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            other.execute("VACUUM FULL item")
        other.execute("SET statement_timeout = '2s'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            other.execute("VACUUM FULL item")
        assert other.execute("SELECT count(*) FROM item").fetchone() == (2,)
    assert files_of(lake, "item") == 2


def test_what_was_dropped_is_cleaned_out(lake: Server, kept: GatewayProcess) -> None:
    """A column that is gone stays in its files until these are compacted, for who reads the lake as it was."""
    made = "SELECT g AS id, repeat(md5(g::text), 4) AS gone FROM generate_series(1, 9000) g"
    lake.psql("-qc", f"CREATE TABLE item AS {made}")
    lake.psql("-qc", "ALTER TABLE item DROP COLUMN gone")
    lake.psql("-qc", "DELETE FROM item WHERE id = 1")
    sizes = "SELECT files, row_count, deleted_rows, bytes < 100000 FROM pg_sluice.table_sizes"
    sizes += " WHERE relation = 'item'::regclass"
    assert lake.query(sizes) == [["1", "8999", "1", "f"]]
    lake.psql("-qc", "VACUUM item")
    assert lake.query(sizes) == [["1", "8999", "0", "t"]]
    retain(lake, "0")
    lake.psql("-qc", "VACUUM item")
    [folder] = {path.parent for path in kept.data_dir.rglob("lake/**/item-*/*.parquet") if path.parent.exists()}
    assert [path.suffix for path in folder.iterdir()] == [".parquet"]
    assert lake.query("SELECT count(*), min(id) FROM item") == [["8999", "2"]]
