"""VACUUM removes what is past the retention, and nothing that is still read."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.maintenance.conftest import connect, files_of, retain, snapshots
from tests.servers import GatewayProcess, Server, free_port, open_directory
from tests.witness import Witness


@pytest.fixture
def item(lake: Server) -> Server:
    """A table with a history: three versions of its rows."""
    lake.psql("-qc", "CREATE TABLE item (id integer, n integer)")
    in_files = {"sluice.hot_rows": "0"}
    lake.psql("-qc", "INSERT INTO item SELECT g, 1 FROM generate_series(1, 10) g", settings=in_files)
    lake.psql("-qc", "UPDATE item SET n = 2", settings=in_files)
    return lake


def newest(server: Server) -> int:
    return int(server.query("SELECT max(snapshot_id) FROM pg_sluice.snapshots")[0][0])


def parquet_files(process: GatewayProcess, server: Server) -> set[Path]:
    """The files of the schema that the test lives in."""
    ((schema,),) = server.query("SELECT current_schema()")
    return set((process.data_dir / "lake" / schema).rglob("*.parquet"))


def test_nothing_goes_within_the_retention(item: Server, kept: GatewayProcess) -> None:
    before, files = snapshots(item), parquet_files(kept, item)
    item.psql("-qc", "VACUUM FULL item")
    assert snapshots(item) == before + 1
    assert parquet_files(kept, item) > files


def test_all_that_is_past_it_goes(item: Server, kept: GatewayProcess) -> None:
    retain(item, "0")
    past = newest(item)
    said = item.psql("-c", "VACUUM (VERBOSE) item").stderr
    assert "files removed" in said
    assert snapshots(item) == 1
    assert len(parquet_files(kept, item)) == files_of(item, "item") == 1
    assert item.query("SELECT count(*), sum(n) FROM item") == [["10", "20"]]
    witness = Witness(kept.data_dir)
    ((schema,),) = item.query("SELECT current_schema()")
    assert witness.table(f"{schema}.item", witness.snapshot()) == [(n, 2) for n in range(1, 11)]
    witness.close()
    refused = item.psql("-c", f"SET sluice.as_of = '{past}'", check=False)
    assert "there is no snapshot" in refused.stderr
    # A dropped table goes with all its files.
    item.psql("-qc", "DROP TABLE item")
    item.psql("-qc", "CREATE TABLE other (n integer)")
    item.psql("-qc", "VACUUM other")
    assert parquet_files(kept, item) == set()


@pytest.mark.turns
def test_the_retention_is_counted_from_what_was_then(item: Server) -> None:
    """The newest snapshot before the retention stays: it is what the lake was all the time since."""
    item.psql("-qc", "SELECT pg_sleep(1.5)")
    ((moment,),) = item.query("SELECT clock_timestamp() - interval '1 second'")
    retain(item, "1 second")
    item.psql("-qc", "INSERT INTO item VALUES (11, 3)")
    item.psql("-qc", "VACUUM item")
    out = item.psql("-qAt", sql=f"SET sluice.as_of = '{moment}'; SELECT count(*) FROM item;").stdout
    assert out == "10\n"


@pytest.mark.turns
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_keeps_its_snapshot(item: Server, level: str) -> None:
    retain(item, "0")
    with connect(item) as reader:
        reader.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        assert reader.execute("SELECT sum(n) FROM item").fetchone() == (20,)
        item.psql("-qc", "UPDATE item SET n = 3")
        item.psql("-qc", "VACUUM FULL item")
        item.psql("-qc", "VACUUM item")
        assert reader.execute("SELECT count(*), sum(n) FROM item WHERE id > 0").fetchone() == (10, 20)
        reader.rollback()
    item.psql("-qc", "VACUUM item")
    assert snapshots(item) == 1


def test_a_cursor_keeps_its_snapshot(item: Server) -> None:
    retain(item, "0")
    with connect(item) as reader:
        reader.execute("DECLARE slow CURSOR FOR SELECT sum(n) FROM item")
        item.psql("-qc", "UPDATE item SET n = 3")
        item.psql("-qc", "VACUUM item")  # FULL would wait for the cursor, as in PostgreSQL
        assert files_of(item, "item") == 1
        assert reader.execute("FETCH ALL FROM slow").fetchall() == [(20,)]
        reader.rollback()


def test_a_statement_under_way_keeps_its_files(item: Server) -> None:
    """One that sends rows as its client takes them, over a table that is rewritten meanwhile."""
    retain(item, "0")
    item.psql("-qc", "CREATE TABLE wide AS SELECT g AS id, repeat('x', 2000) AS t FROM generate_series(1, 60000) g")
    with (
        connect(item, autocommit=True) as reader,
        reader.cursor() as cursor,
        cursor.copy("COPY wide TO STDOUT") as copy,
    ):
        rows = copy.rows()
        next(rows)
        item.psql("-qc", "VACUUM FULL wide")
        item.psql("-qc", "VACUUM wide")
        assert sum(1 for _ in rows) == 60000 - 1


def test_a_session_in_the_past_keeps_its_snapshot(item: Server) -> None:
    """Idle, outside of a transaction: it said which snapshot it reads."""
    chosen = newest(item)
    with connect(item, autocommit=True) as reader:
        reader.execute(f"SET sluice.as_of = '{chosen}'".encode())
        retain(item, "0")
        item.psql("-qc", "UPDATE item SET n = 3")
        item.psql("-qc", "VACUUM FULL item")
        assert snapshots(item) > 1
        assert reader.execute("SELECT sum(n) FROM item").fetchone() == (20,)
        reader.execute("RESET sluice.as_of")
        assert reader.execute("SELECT sum(n) FROM item").fetchone() == (30,)
        item.psql("-qc", "VACUUM item")
        assert snapshots(item) == 1


@pytest.mark.turns
def test_a_role_may_do_what_postgresql_lets_it(item: Server) -> None:
    item.psql("-q", sql="DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN; ALTER ROLE keeper SET search_path = ''")
    ((schema,),) = item.query("SELECT current_schema()")
    item.psql("-qc", f"GRANT USAGE ON SCHEMA {schema} TO keeper")
    other = Server(item.name, item.host, item.port, "keeper", item.database)
    item.psql("-qc", "INSERT INTO item VALUES (11, 2)")
    said = other.psql("-c", f"VACUUM {schema}.item").stderr
    assert said == 'WARNING:  permission denied to vacuum "item", skipping it\n'
    said = other.psql("-c", f"ANALYZE {schema}.item").stderr
    assert said == 'WARNING:  permission denied to analyze "item", skipping it\n'
    said = other.psql("-c", f"CLUSTER {schema}.item", check=False).stderr
    assert "permission denied for table item" in said
    assert files_of(item, "item") > 1
    item.psql("-qc", "GRANT MAINTAIN ON item TO keeper")
    assert other.psql("-c", f"VACUUM {schema}.item").stderr == ""
    assert files_of(item, "item") == 1
    item.psql("-q", sql=f"REVOKE ALL ON item FROM keeper; REVOKE ALL ON SCHEMA {schema} FROM keeper; DROP ROLE keeper;")


def test_settings_are_the_lakes_own(item: Server) -> None:
    """What a session sets for itself changes nothing; what is wrong is said."""
    before = snapshots(item)
    item.psql("-qc", "SET sluice.retention = '0'", "-c", "VACUUM item")
    assert snapshots(item) >= before
    retain(item, "never")
    refused = item.psql("-c", "VACUUM item", check=False)
    assert "invalid input syntax for type interval" in refused.stderr
    retain(item, None)
    assert item.query("SELECT value FROM pg_sluice.maintenance_settings WHERE name = 'sluice.retention'") == [
        ["7 days"]
    ]


@pytest.mark.turns
def test_another_gateways_readers_are_safe(item: Server, kept: GatewayProcess) -> None:
    """Two gateways over one catalog: what one removes nobody reads at the other."""
    retain(item, "0")
    data_path = str(kept.data_dir / "lake") + "/"
    arguments = ("--catalog", kept.catalog_url, "--data-path", data_path)
    with (
        open_directory("second") as directory,
        GatewayProcess(directory / "data", free_port(), arguments, user=item.user) as second,
        connect(second.server) as reader,
    ):
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert reader.execute("SELECT sum(n) FROM item").fetchone() == (20,)
        item.psql("-qc", "UPDATE item SET n = 3")
        item.psql("-qc", "VACUUM FULL item")
        assert reader.execute("SELECT sum(n) FROM item WHERE id > 0").fetchone() == (20,)
        reader.rollback()
        item.psql("-qc", "VACUUM item")
        assert snapshots(item) == 1
        assert reader.execute("SELECT sum(n) FROM item").fetchone() == (30,)
