"""A gateway whose lake is in an object store: what users do, and what a faulty store or a killed gateway loses."""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psycopg
import pytest

from tests.forks import ask_sluice
from tests.object_store.conftest import DATA_PATH, store_options
from tests.object_store.s3_server import BUCKET, CREDENTIALS, REGION, Request, S3Server
from tests.servers import GatewayProcess, Server, free_port, open_directory, sqlstate_of
from tests.witness import extension


@pytest.fixture
def schema(stored: GatewayProcess, healthy: S3Server) -> Iterator[str]:
    stored.server.psql("-qc", "CREATE SCHEMA mine")
    yield "mine"
    healthy.heal()
    stored.server.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA mine CASCADE")


def check(process: GatewayProcess, s3: S3Server) -> str:
    """What `sluice check` prints, sidecars that are not made yet left out."""
    before = _temporary_copies()
    checked = ask_sluice("check", "--data-dir", str(process.data_dir), *store_options(s3))
    assert not checked.stderr, checked.stderr
    assert _temporary_copies() <= before, "its copies go with it"
    return "\n".join(line for line in checked.stdout.splitlines()[:-1] if "lacks a sidecar" not in line)


def _temporary_copies() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("sluice-copies-*"))


def witness(process: GatewayProcess, s3: S3Server, sql: str) -> list[tuple[object, ...]]:
    """What DuckDB reads, by its own extension for S3."""
    attach = ask_sluice("attach", "--data-dir", str(process.data_dir), *store_options(s3)).stdout
    with duckdb.connect() as connection:
        for name in ("postgres_scanner", "ducklake", "httpfs"):
            connection.execute(f"LOAD '{extension(name)}'")
        host = s3.endpoint.removeprefix("http://")
        keys = f"KEY_ID '{CREDENTIALS['AWS_ACCESS_KEY_ID']}', SECRET '{CREDENTIALS['AWS_SECRET_ACCESS_KEY']}'"
        place = f"ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false, REGION '{REGION}'"
        connection.execute(f"CREATE SECRET (TYPE s3, {keys}, {place})")
        connection.execute(attach)
        return connection.execute(sql).fetchall()


def test_rows_go_to_the_store_and_come_back(stored: GatewayProcess, healthy: S3Server, schema: str) -> None:
    server = stored.server
    server.psql(
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        sql=f"""
            CREATE TABLE {schema}.sales (id int PRIMARY KEY, region text, amount numeric(10,2));
            INSERT INTO {schema}.sales SELECT i, 'r' || i % 7, i / 4.0 FROM generate_series(1, 50000) i;
            UPDATE {schema}.sales SET amount = 0 WHERE id BETWEEN 100 AND 4099;
            DELETE FROM {schema}.sales WHERE id <= 10;
            ALTER TABLE {schema}.sales ADD COLUMN note text DEFAULT 'none';
            ALTER TABLE {schema}.sales ALTER COLUMN id TYPE bigint;
            CREATE INDEX ON {schema}.sales (region);
            INSERT INTO {schema}.sales VALUES (1, 'hot', 1, 'hot');
            CREATE TABLE {schema}.copy AS SELECT * FROM {schema}.sales WHERE region = 'r3';
        """,
    )
    answers = [["49991", "1250024946", "100"]]
    question = f"SELECT count(*), sum(id)::bigint, count(*) FILTER (WHERE id BETWEEN 100 AND 199) FROM {schema}.sales"
    assert server.query(question) == answers
    server.psql("-qc", f"VACUUM FULL {schema}.sales")
    assert server.query(f"SET sluice.engine = 'spark'; {question}") == answers
    assert server.query(f"SELECT amount, note FROM {schema}.sales WHERE id = 4100") == [["1025.00", "none"]]
    count = int(server.query(f"SELECT count(*) FROM {schema}.copy")[0][0])
    assert count == 7141
    assert witness(stored, healthy, f"SELECT count(*), sum(id) FROM lake.{schema}.sales") == [(49991, 1250024946)]
    assert check(stored, healthy) == ""
    keys = [key for key in healthy.objects() if key.endswith(".parquet") and not key.startswith("own-")]
    assert keys
    assert all(key.startswith("the/lake/") for key in keys)
    assert not any((stored.data_dir / "lake").iterdir()), "nothing goes into the folder of a local lake"


@pytest.mark.turns
def test_an_old_snapshot_stays_and_expiry_removes_objects(
    stored: GatewayProcess, healthy: S3Server, schema: str
) -> None:
    server, others = stored.server, healthy.objects().keys()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET sluice.hot_rows = 0")
        connection.execute(f"CREATE TABLE {schema}.t (n int)")
        connection.execute(f"INSERT INTO {schema}.t SELECT generate_series(1, 3000)")
        row = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchone()
        assert row is not None
        connection.execute(f"UPDATE {schema}.t SET n = -n")
        connection.execute(f"SET sluice.as_of = '{row[0]}'")
        assert connection.execute(f"SELECT sum(n) FROM {schema}.t").fetchone() == (4501500,)
        connection.execute("RESET sluice.as_of")
        before = healthy.objects().keys() - others
        connection.execute("ALTER DATABASE sluice SET sluice.retention = '0 s'")
        try:
            connection.execute(f"VACUUM FULL {schema}.t")
            deadline = time.monotonic() + 20
            connection.execute("VACUUM")
            while before & healthy.objects().keys() and time.monotonic() < deadline:
                connection.execute("VACUUM")  # a round of the background may have read an old snapshot
        finally:
            connection.execute("ALTER DATABASE sluice RESET sluice.retention")
        assert connection.execute(f"SELECT sum(n) FROM {schema}.t").fetchone() == (-4501500,)
    assert not before & healthy.objects().keys()
    assert check(stored, healthy) == ""


def test_no_secret_is_kept_or_shown(stored: GatewayProcess, healthy: S3Server, schema: str) -> None:
    server, secret = stored.server, CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
    server.psql("-qc", f"CREATE TABLE {schema}.t AS SELECT generate_series(1, 5000) AS n")
    shown = str(server.query(f"SET sluice.engine = 'spark'; EXPLAIN (VERBOSE) SELECT sum(n) FROM {schema}.t"))
    healthy.fault = lambda _: 403
    shown += str(sqlstate_of(server, "SET sluice.hot_rows = 0", f"INSERT INTO {schema}.t SELECT generate_series(1, 9)"))
    healthy.heal()
    with psycopg.connect(stored.catalog_url) as catalog:
        shown += str(catalog.execute("SELECT * FROM pg_ducklake.ducklake_metadata").fetchall())
    shown += stored.output + (stored.data_dir / "spark.log").read_text()
    assert DATA_PATH in shown
    assert secret not in shown
    assert CREDENTIALS["AWS_ACCESS_KEY_ID"] not in shown


def test_a_statement_fails_with_the_store_and_the_next_succeeds(
    stored: GatewayProcess, healthy: S3Server, schema: str
) -> None:
    server = stored.server
    server.psql("-qc", f"CREATE TABLE {schema}.t (n int)")
    healthy.fault = lambda request: 403 if request.method in {"PUT", "POST"} else None
    insert = f"INSERT INTO {schema}.t SELECT generate_series(1, 3000)"
    assert sqlstate_of(server, "SET sluice.hot_rows = 0", insert)[0] == "58030"
    assert server.query(f"SELECT count(*) FROM {schema}.t") == [["0"]]
    healthy.heal()
    server.psql("-qc", insert)
    assert server.query(f"SELECT count(*) FROM {schema}.t") == [["3000"]]
    assert check(stored, healthy) == ""


@pytest.mark.turns
def test_a_store_that_is_slow_and_fails_at_random_loses_nothing(
    stored: GatewayProcess, healthy: S3Server, schema: str
) -> None:
    server, dice = stored.server, random.Random(11)
    server.psql("-qc", f"CREATE TABLE {schema}.t (writer int, n int)")
    lock = threading.Lock()

    def fault(_: Request) -> int | None:
        with lock:
            return dice.choice([503, 500]) if dice.random() < 0.15 else None

    healthy.fault, healthy.seconds = fault, 0.01
    written = dict.fromkeys(range(3), 0)
    failures: list[str | None] = []

    def write(writer: int) -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET sluice.hot_rows = 0")
            for number in range(6):
                try:
                    rows = f"SELECT {writer}, {number * 100} + i FROM generate_series(1, 100) i"
                    connection.execute(f"INSERT INTO {schema}.t {rows}")
                    written[writer] += 100
                except psycopg.Error as error:
                    failures.append(error.sqlstate)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in written]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    healthy.heal()
    assert set(failures) <= {"58030"}
    question = f"SELECT writer, count(*), count(DISTINCT n) FROM {schema}.t GROUP BY 1 ORDER BY 1"
    assert server.query(question) == [[str(writer), str(count), str(count)] for writer, count in written.items()]
    assert check(stored, healthy) == ""


@pytest.mark.turns
@pytest.mark.parametrize("options", ["", "WITH (sluice.sort_by = 'n')", "WITH (sluice.partition_by = 'bucket(3, n)')"])
def test_compaction_publishes_no_file_that_is_not_stored(
    stored: GatewayProcess, healthy: S3Server, schema: str, options: str
) -> None:
    server = stored.server
    server.psql("-qc", f"CREATE TABLE {schema}.t (n int) {options}")
    for first in (1, 40_001):
        rows = f"SELECT i * 7919 % 80021 FROM generate_series({first}, {first + 39_999}) i"
        server.psql("-qc", f"SET sluice.hot_rows = 0; INSERT INTO {schema}.t {rows}")
    before = set(healthy.objects())
    healthy.fault = lambda request: 403 if request.method in {"PUT", "POST"} else None
    assert sqlstate_of(server, f"VACUUM FULL {schema}.t")[0] == "58030"
    healthy.heal()
    assert before <= set(healthy.objects())
    assert server.query(f"SELECT count(*), count(DISTINCT n) FROM {schema}.t") == [["80000", "80000"]]
    healthy.seconds = 0.3
    server.psql("-qc", f"VACUUM FULL {schema}.t")
    for copy in stored.data_dir.glob("copies-*/**/*.parquet"):
        copy.unlink()
    healthy.seconds = 0.0
    assert server.query(f"SELECT count(*), count(DISTINCT n) FROM {schema}.t") == [["80000", "80000"]]
    assert check(stored, healthy) == ""


@pytest.mark.turns
def test_damage_is_told(stored: GatewayProcess, healthy: S3Server, schema: str) -> None:
    server, before = stored.server, set(healthy.objects())
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET sluice.hot_rows = 0")
        connection.execute(f"CREATE TABLE {schema}.t AS SELECT generate_series(1, 30000) AS n")
    (key,) = set(healthy.objects()) - before
    whole = healthy.body(key)
    for copy in stored.data_dir.rglob(key.rpartition("/")[2]):
        copy.unlink()
    healthy.replace(key, whole[:-1])
    for engine in ("auto", "spark"):
        asked = sqlstate_of(server, f"SET sluice.engine = {engine}", f"SELECT sum(n) FROM {schema}.t WHERE n % 2 = 1")
        assert asked[0] == "XX001"
    assert "size: " in check(stored, healthy)
    healthy.replace(key, whole)
    assert server.query(f"SELECT sum(n) FROM {schema}.t WHERE n % 2 = 1") == [["225000000"]]


@pytest.fixture
def own(healthy: S3Server) -> Iterator[GatewayProcess]:
    """A gateway of the test's own over another place in the bucket, with little room for copies; not started."""
    with open_directory("own") as directory:
        arguments = (f"--data-path=s3://{BUCKET}/own-{free_port()}", *store_options(healthy), "--copies-limit=1")
        process = GatewayProcess(directory / "data", arguments=arguments)
        yield process
        if process.process.poll() is None:
            process.stop()


def copied(process: GatewayProcess) -> int:
    """The bytes of all local copies."""
    return sum(place.stat().st_size for place in process.data_dir.glob("copies-*/**/*.parquet"))


@pytest.mark.turns
def test_copies_keep_to_their_limit_and_two_gateways_keep_apart(own: GatewayProcess, healthy: S3Server) -> None:
    own.start()
    server = own.server
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (n int, x text)")
        for number in range(6):
            rows = f"SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series({number}0001, {number}9000) i"
            connection.execute(f"INSERT INTO t {rows}")
        connection.execute("SET sluice.engine = 'spark'")
        assert connection.execute("SELECT count(*), count(DISTINCT x) FROM t").fetchone() == (54_000, 54_000)
    assert sum(healthy.objects().values()) > 2 * 2**20
    assert copied(own) <= 2**20
    other = GatewayProcess(own.data_dir, arguments=own.arguments)
    with other:
        question = "SET sluice.engine = 'spark'; SELECT count(*), count(DISTINCT x) FROM t"
        assert other.server.query(question) == own.server.query(question) == [["54000", "54000"]]
        assert len(list(own.data_dir.glob("copies-*.lock"))) == 2
    own.stop()
    own.start()
    assert own.server.query("SELECT count(*), count(DISTINCT x) FROM t") == [["54000", "54000"]]


def test_a_killed_gateway_leaves_nothing(own: GatewayProcess, healthy: S3Server) -> None:
    own.start()
    own.server.psql("-qc", "CREATE TABLE t (n int)")
    held = threading.Event()

    def fault(request: Request) -> None:
        if request.method in {"PUT", "POST"}:
            held.set()
            threading.Event().wait(0.5)

    healthy.fault = fault
    insert = threading.Thread(target=_insert, args=(own.server,))
    insert.start()
    assert held.wait(60)
    own.kill()
    insert.join()
    healthy.heal()
    own.start()
    rows = own.server.query("SELECT count(*) FROM t")
    assert rows in ([["0"]], [["60000"]])
    if rows == [["0"]]:
        assert not [key for key in healthy.objects() if key.startswith(own.arguments[0].partition(f"{BUCKET}/")[2])]
    assert check(own, healthy) == ""


def _insert(server: Server) -> None:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("INSERT INTO t SELECT generate_series(1, 60000)")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--data-path=s3://no-such-bucket/lake",), 'bucket "no-such-bucket" does not exist'),
        ((f"--data-path={DATA_PATH}", "--spark=spark://127.0.0.1:7077"), "needs Hadoop's file system for it"),
        (("--data-path=gs://bucket/lake",), "neither a folder nor a URL like s3://bucket/prefix"),
        (("--data-path=s3://key:secret@bucket/lake",), "a URL with credentials is not taken"),
    ],
)
def test_what_serve_refuses(healthy: S3Server, data_dir: Path, arguments: tuple[str, ...], words: str) -> None:
    done = ask_sluice("serve", "--data-dir", str(data_dir), *store_options(healthy), *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
