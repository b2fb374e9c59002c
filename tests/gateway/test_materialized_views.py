"""Materialized views, as far as a transcript beside PostgreSQL's cannot show them: the rest is in the session file."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from catalog.postgres.embedded import binaries
from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server
from tests.witness import Witness

_STATEMENT_MS_MAX = 60_000


def _connect(server: Server, schema: str) -> psycopg.Connection[tuple[object, ...]]:
    """Whoever waits for a lock fails in the end."""
    options = f"-c search_path={schema} -c lock_timeout={_STATEMENT_MS_MAX}"
    return psycopg.connect(server.url, autocommit=True, options=options)


def _files(process: GatewayProcess, schema: str) -> set[Path]:
    return set((process.data_dir / "lake" / schema).rglob("*.parquet"))


def _faults(process: GatewayProcess, schema: str) -> list[str]:
    """What `sluice check` says of the test's own tables."""
    checked = ask_sluice("check", "--data-dir", str(process.data_dir))
    return [line for line in checked.stdout.splitlines() if f"{schema}/" in line]


def test_readers_have_the_rows_of_before_or_of_after_and_never_wait(gateway: Server, schema: str) -> None:
    with (
        _connect(gateway, schema) as refreshing,
        _connect(gateway, schema) as reader,
        _connect(gateway, schema) as third,
    ):
        refreshing.execute("CREATE TABLE t AS SELECT 1 AS id")
        refreshing.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
        refreshing.execute("CREATE MATERIALIZED VIEW later AS SELECT id FROM t WITH NO DATA")
        refreshing.execute("INSERT INTO t VALUES (2)")
        refreshing.execute("BEGIN")
        refreshing.execute("REFRESH MATERIALIZED VIEW m")
        refreshing.execute("REFRESH MATERIALIZED VIEW later")
        # One that Spark computes, and one that PostgreSQL does.
        assert reader.execute("SELECT count(*) FROM m").fetchall() == [(1,)]
        assert reader.execute("SELECT m::text FROM m").fetchall() == [("(1)",)]
        with pytest.raises(errors.ObjectNotInPrerequisiteState, match="has not been populated"):
            reader.execute("SELECT * FROM later")
        waiting = threading.Thread(target=third.execute, args=(b"REFRESH MATERIALIZED VIEW m",))
        waiting.start()
        time.sleep(1)
        assert waiting.is_alive()
        refreshing.execute("INSERT INTO t VALUES (3)")
        refreshing.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM later").fetchall() == [(2,)]
        waiting.join()
        assert reader.execute("SELECT count(*) FROM m").fetchall() == [(3,)]


def test_two_sessions_compute_over_the_same_view_at_a_time(gateway: Server, schema: str) -> None:
    with _connect(gateway, schema) as one, _connect(gateway, schema) as other:
        one.execute("CREATE MATERIALIZED VIEW m AS SELECT i, 'x' || i AS s FROM generate_series(1, 3) i")
        one.execute("BEGIN")
        query = "SELECT m::text FROM m ORDER BY i"
        found = [connection.execute(query).fetchall() for connection in (one, other, one)]
        one.execute("COMMIT")
    assert found == [[("(1,x1)",), ("(2,x2)",), ("(3,x3)",)]] * 3


def test_duckdb_reads_it_as_a_table_of_the_lake(gateway_process: GatewayProcess, schema: str) -> None:
    witness = Witness(gateway_process.data_dir)
    with _connect(gateway_process.server, schema) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id, 'one' AS name")
        connection.execute("CREATE MATERIALIZED VIEW m (number, called) AS SELECT * FROM t")
        connection.execute("CREATE UNIQUE INDEX ON m (number)")
        made = witness.snapshot()
        connection.execute("INSERT INTO t VALUES (2, NULL)")
        connection.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY m")
        refreshed = witness.snapshot()
        connection.execute("REFRESH MATERIALIZED VIEW m WITH NO DATA")
        emptied = witness.snapshot()
    name = f"{schema}.m"
    assert witness.table(name, made, "number, called") == [(1, "one")]
    assert witness.table(name, refreshed, "number, called") == [(1, "one"), (2, None)]
    assert witness.table(name, emptied, "number, called") == []
    witness.close()
    assert _faults(gateway_process, schema) == []


def test_what_is_undone_leaves_nothing(gateway_process: GatewayProcess, schema: str) -> None:
    server = gateway_process.server
    with _connect(server, schema) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
        connection.execute("CREATE UNIQUE INDEX ON m (id)")
        connection.execute("INSERT INTO t VALUES (1)")
        before = _files(gateway_process, schema)
        for command in ("REFRESH MATERIALIZED VIEW m", "REFRESH MATERIALIZED VIEW CONCURRENTLY m"):
            with pytest.raises((errors.UniqueViolation, errors.CardinalityViolation)):
                connection.execute(command.encode())
        connection.execute("BEGIN")
        connection.execute("CREATE MATERIALIZED VIEW other AS SELECT count(*) FROM t")
        connection.execute("DELETE FROM t")
        connection.execute("REFRESH MATERIALIZED VIEW m")
        connection.execute("ROLLBACK")
        assert _files(gateway_process, schema) == before
        connection.execute("BEGIN")
        connection.execute("CREATE MATERIALIZED VIEW other AS SELECT count(*) FROM t")
        connection.close()
    with _connect(server, schema) as connection:  # the other has gone in the midst of its transaction
        deadline = time.monotonic() + 20
        while _files(gateway_process, schema) != before and time.monotonic() < deadline:
            time.sleep(0.2)
        assert _files(gateway_process, schema) == before
        assert connection.execute("SELECT count(*) FROM m").fetchall() == [(1,)]
        assert connection.execute("SELECT to_regclass('other')").fetchall() == [(None,)]
    assert _faults(gateway_process, schema) == []


def test_concurrently_only_the_difference_is_written(gateway_process: GatewayProcess, schema: str) -> None:
    """Nothing at all where nothing has changed: so whoever has read the view may go on."""
    server = gateway_process.server
    live = (
        "SELECT record_count FROM pg_sluice.data_file f JOIN pg_sluice.relation r USING (table_id)"
        " WHERE r.relid = %s::regclass AND end_snapshot IS NULL ORDER BY 1"
    )
    with _connect(server, schema) as connection, _connect(server, schema) as reader:
        connection.execute("CREATE TABLE t AS SELECT i AS id, i AS n FROM generate_series(1, 1000) i")
        connection.execute("CREATE MATERIALIZED VIEW m AS SELECT * FROM t")
        connection.execute("CREATE UNIQUE INDEX ON m (id)")
        connection.execute("CREATE TABLE beside (id integer)")
        before = _files(gateway_process, schema)
        reader.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert reader.execute("SELECT count(*) FROM m").fetchall() == [(1000,)]
        connection.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY m")
        assert _files(gateway_process, schema) == before
        reader.execute("INSERT INTO beside VALUES (1)")
        reader.execute("COMMIT")
        connection.execute("UPDATE t SET n = 0 WHERE id = 7")
        connection.execute("DELETE FROM t WHERE id = 8")
        connection.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY m")
        assert connection.execute("SELECT count(*), sum(n) FROM m").fetchall() == [(999, 500_485)]
    with psycopg.connect(gateway_process.catalog_url) as catalog:
        assert catalog.execute(live.encode(), [f"{schema}.m"]).fetchall() == [(1,), (1000,)]
    assert _faults(gateway_process, schema) == []


def test_as_it_was(gateway: Server, schema: str) -> None:
    with _connect(gateway, schema) as connection:

        def now() -> int:
            [(snapshot,)] = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
            assert isinstance(snapshot, int)
            return snapshot

        def read(snapshot: int) -> list[tuple[object, ...]]:
            connection.execute(f"SET sluice.as_of = {snapshot}".encode())
            try:
                return connection.execute("SELECT * FROM m").fetchall()
            finally:
                connection.execute("RESET sluice.as_of")

        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.execute("CREATE MATERIALIZED VIEW m AS SELECT sum(id) AS s FROM t WITH NO DATA")
        moments = [now()]
        for change in ("UPDATE t SET id = 2", "UPDATE t SET id = 3"):
            connection.execute(change.encode())
            connection.execute("REFRESH MATERIALIZED VIEW m")
            moments.append(now())
        connection.execute("REFRESH MATERIALIZED VIEW m WITH NO DATA")
        assert [read(moment) for moment in moments[1:]] == [[(2,)], [(3,)]]
        for unpopulated in (moments[0], now()):
            with pytest.raises(errors.ObjectNotInPrerequisiteState):
                read(unpopulated)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("CREATE MATERIALIZED VIEW bad AS SELECT f()", "a function that reads a lake table"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT writes(), id FROM t", "a function that changes a table, in a mat"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT writes()", "a function that changes a table, in a materialized view"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT made(), id FROM t", "a function that changes a table"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT made()", "a function that changes a table, in a materialized view"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT told(), id FROM t", "the volatile function"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT told()", "the volatile function"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT set_config('a.b', 'c', false)", "the volatile function set_config"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT g(), id FROM t", "a function that reads a lake table which is not in"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT g()", "a function that reads a lake table"),
        ("CREATE MATERIALIZED VIEW bad AS SELECT t AS r FROM t", 'column "r"'),
        ("CREATE MATERIALIZED VIEW bad AS SELECT FROM t", "a row without columns"),
        ("DO 'BEGIN CREATE MATERIALIZED VIEW bad AS SELECT 1 AS i; END'", "CREATE MATERIALIZED VIEW from within"),
        ("DO 'BEGIN CREATE MATERIALIZED VIEW bad AS SELECT id FROM t; END'", "CREATE MATERIALIZED VIEW from within"),
        ("DO 'BEGIN REFRESH MATERIALIZED VIEW m; END'", "REFRESH MATERIALIZED VIEW from within"),
        ("EXPLAIN CREATE MATERIALIZED VIEW bad AS SELECT id FROM t", "EXPLAIN CREATE MATERIALIZED VIEW"),
    ],
)
def test_refused_by_name(gateway: Server, schema: str, statement: str, named: str) -> None:
    with _connect(gateway, schema) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        connection.execute("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
        volatile = f"AS 'SELECT count(*) FROM {schema}.t'"
        connection.execute(f"CREATE FUNCTION f() RETURNS bigint LANGUAGE sql {volatile}".encode())
        writing = f"AS 'BEGIN INSERT INTO {schema}.t VALUES (2); RETURN 2; END'"
        connection.execute(f"CREATE FUNCTION writes() RETURNS bigint LANGUAGE plpgsql {writing}".encode())
        connection.execute("CREATE FUNCTION made() RETURNS oid LANGUAGE sql AS 'SELECT lo_create(0)'")
        connection.execute("CREATE FUNCTION told() RETURNS text LANGUAGE sql AS $$ SELECT pg_notify('a', '')::text $$")
        stable = f"AS 'BEGIN RETURN (SELECT count(*) FROM {schema}.m); END'"
        connection.execute(f"CREATE FUNCTION g() RETURNS bigint STABLE LANGUAGE plpgsql {stable}".encode())
        with pytest.raises(errors.FeatureNotSupported) as raised:
            connection.execute(statement.encode())
        assert named in str(raised.value)
        assert connection.execute("SELECT * FROM m").fetchall() == [(1,)]
        assert connection.execute("SELECT to_regclass('bad')").fetchall() == [(None,)]


def test_names_in_the_query_are_those_of_its_making(gateway: Server, schema: str) -> None:
    """Whoever refreshes it may have another search path, with functions and tables of the same names in it."""
    with _connect(gateway, schema) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'a' AS s")
        connection.execute("CREATE MATERIALIZED VIEW m AS SELECT upper(s) AS s FROM t")
        connection.execute("CREATE FUNCTION upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''hidden'''")
        connection.execute("CREATE TEMP TABLE t AS SELECT 'temporary' AS s")
        connection.execute(f"SET search_path = {schema}, pg_catalog".encode())
        connection.execute("REFRESH MATERIALIZED VIEW m")
        assert connection.execute("SELECT * FROM m").fetchall() == [("A",)]
        assert connection.execute("SHOW search_path").fetchall() == [(f"{schema}, pg_catalog",)]
        connection.execute("BEGIN")
        connection.execute("REFRESH MATERIALIZED VIEW m")
        assert connection.execute("SHOW search_path").fetchall() == [(f"{schema}, pg_catalog",)]
        connection.execute("COMMIT")


def test_pg_dump_says_what_it_says_of_postgresql(oracle: Server, gateway: Server, schema: str) -> None:
    dumped = []
    for server in (oracle, gateway):
        server.psql(
            "-qc",
            f"""CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path = {schema}; CREATE TABLE t (id integer, s text);
                CREATE MATERIALIZED VIEW m AS SELECT id, upper(s) AS u FROM t;
                CREATE MATERIALIZED VIEW later (a, b) AS SELECT * FROM m WITH NO DATA;
                CREATE UNIQUE INDEX once ON m (id); COMMENT ON MATERIALIZED VIEW m IS 'rows';
                GRANT SELECT ON m TO PUBLIC;""",
        )
        text = server.run(binaries() / "pg_dump", "--schema-only", "--schema", schema).stdout
        dumped.append([line for line in text.splitlines() if "restrict " not in line])
    assert dumped[1] == dumped[0]
    oracle.psql("-qc", f"DROP SCHEMA {schema} CASCADE")
