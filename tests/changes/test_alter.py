"""ALTER TABLE over existing rows, as others see it: DuckDB, functions, and reads of old snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.servers import GatewayProcess, Server
from tests.witness import Witness


@pytest.fixture
def connection(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        yield connection


def test_duckdb_reads_what_was_written_anew(
    gateway_process: GatewayProcess, connection: psycopg.Connection, schema: str
) -> None:
    connection.execute("CREATE TABLE t (id integer, n integer, s text, d numeric(6, 2))")
    connection.execute("INSERT INTO t SELECT g, g, g::text, g FROM generate_series(1, 100) g")
    connection.execute("DELETE FROM t WHERE id % 10 = 0")
    [[before]] = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
    connection.execute("ALTER TABLE t ALTER n TYPE bigint, ALTER d TYPE numeric(12, 2)")
    connection.execute("INSERT INTO t VALUES (101, 10000000000, '7', 12345678.90)")
    connection.execute("ALTER TABLE t ALTER s TYPE integer USING s::integer * 2")
    connection.execute("ALTER TABLE t ADD COLUMN g integer GENERATED ALWAYS AS (id + 1) STORED")
    connection.execute("ALTER TABLE t ADD COLUMN u uuid DEFAULT gen_random_uuid()")
    connection.execute("DELETE FROM t WHERE id = 1")
    rows = connection.execute("SELECT id, n, s, d, g, u FROM t ORDER BY 1, 2").fetchall()
    assert len(rows) == 90
    witness = Witness(gateway_process.data_dir)
    try:
        assert witness.table(f"{schema}.t", witness.snapshot(), "id, n, s, d, g, u") == rows
        was = witness.table(f"{schema}.t", int(before), "id, n, s")
        assert was == [(g, g, str(g)) for g in range(1, 101) if g % 10]
    finally:
        witness.close()


def test_the_lake_as_it_was_before_the_type_changed(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (id integer, s text)")
    connection.execute("INSERT INTO t VALUES (1, '10')")
    [[before]] = connection.execute("SELECT max(snapshot_id) FROM pg_sluice.snapshots").fetchall()
    connection.execute("ALTER TABLE t ALTER s TYPE integer USING s::integer")
    connection.execute(f"SET sluice.as_of = '{before}'".encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute("SELECT s FROM t")


def test_do_gives_a_column_its_own_type_with_other_values(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (n integer)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("DO $$ BEGIN ALTER TABLE t ALTER n TYPE integer USING n + 1; END $$")
    assert connection.execute("SELECT * FROM t").fetchall() == [(2,)]


def test_a_prepared_alter(connection: psycopg.Connection) -> None:
    """Over the extended protocol, alone and in a pipeline whose later statement fails."""
    connection.execute("CREATE TABLE t (n integer)")
    connection.execute("INSERT INTO t VALUES (1), (2)")
    connection.execute("ALTER TABLE t ADD UNIQUE (n)", prepare=True)
    with pytest.raises(psycopg.errors.UniqueViolation):
        _pipeline(connection, "ALTER TABLE t ADD CHECK (n > 0)", "INSERT INTO t VALUES (1)")
    connection.execute("INSERT INTO t VALUES (-1)")


def _pipeline(connection: psycopg.Connection, *statements: str) -> None:
    with connection.pipeline():
        for statement in statements:
            connection.execute(statement.encode())


def test_who_may_not(gateway: Server, connection: psycopg.Connection, schema: str) -> None:
    connection.execute("CREATE TABLE t (n integer)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute(f"CREATE ROLE {schema}_other; GRANT {schema}_other TO CURRENT_USER".encode())
    connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_other; SET ROLE {schema}_other".encode())
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("ALTER TABLE t ADD CHECK (n > 0)")
        for call in (
            "conclude(1)",
            "elements()",
            "order_changes(1)",
            "recompute_columns(1, '[]')",
            "forget_defaults(1, '{}')",
            "carry_arrays(1, '[]')",
            "explained(0)",
            "explained_steps('{}')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT pg_sluice.{call}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE pg_sluice.schema_change SET canceled = true")
    finally:
        connection.execute("RESET ROLE")
        connection.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {schema}_other; DROP ROLE {schema}_other".encode())


def test_a_collation_in_which_a_unique_index_cannot_be_kept(connection: psycopg.Connection) -> None:
    """The change is refused, not each later change of rows."""
    connection.execute("CREATE TABLE t (id integer, s text)")
    connection.execute("INSERT INTO t VALUES (1, 'A')")
    connection.execute("CREATE UNIQUE INDEX ON t (lower(s))")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute('ALTER TABLE t ALTER s TYPE text COLLATE "C"')
    connection.execute("INSERT INTO t VALUES (2, 'b')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO t VALUES (3, 'a')")


def test_defaults_from_a_sequence_that_is_there(target: Server, target_schema: str) -> None:
    """Rows that are there are numbered from it, and those that come go on; on PostgreSQL and here."""
    options = f"-csearch_path={target_schema}"
    with psycopg.connect(target.url, autocommit=True, options=options) as connection:
        connection.execute("CREATE SEQUENCE s START 100 INCREMENT 5")
        connection.execute("CREATE TABLE t (id integer, n integer)")
        connection.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 6) g")
        connection.execute("DELETE FROM t WHERE id = 3")
        assert connection.execute("SELECT nextval('s')").fetchone() == (100,)
        connection.execute("ALTER TABLE t ALTER n SET DEFAULT nextval('s')")
        connection.execute("INSERT INTO t (id) VALUES (7)")
        assert connection.execute("SELECT n FROM t WHERE id = 7").fetchone() == (105,)
        connection.execute("ALTER TABLE t ADD COLUMN k bigint DEFAULT nextval('s'), ADD u integer DEFAULT 3")
        rows = connection.execute("SELECT k, u FROM t ORDER BY k").fetchall()
        assert rows == [(110 + 5 * place, 3) for place in range(6)]
        connection.execute("INSERT INTO t (id) VALUES (8)")
        assert connection.execute("SELECT n + k FROM t WHERE id = 8").fetchone() == (140 + 145,)
        with connection.transaction():
            connection.execute("ALTER TABLE t ADD COLUMN m smallint NOT NULL DEFAULT nextval('s')")
            assert connection.execute("SELECT min(m), max(m), count(m) FROM t").fetchone() == (150, 180, 7)
        assert connection.execute("SELECT count(DISTINCT m), max(m) FROM t").fetchone() == (7, 180)
        connection.execute("SELECT setval('s', 40000)")
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            connection.execute("ALTER TABLE t ADD COLUMN o smallint DEFAULT nextval('s')")
        assert connection.execute("SELECT * FROM t WHERE id = 1").fetchone() == (1, 1, 110, 3, 150)


def test_a_sequence_that_the_client_may_not_use(connection: psycopg.Connection, schema: str) -> None:
    connection.execute("CREATE TABLE t (id integer)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("CREATE SEQUENCE s")
    connection.execute("REVOKE ALL ON SEQUENCE s FROM CURRENT_USER")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("ALTER TABLE t ADD COLUMN k integer DEFAULT nextval('s')")
    assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]


_REALS = "(0.1), (16777216), (-0), ('NaN'), ('Infinity'), (1e-45), (3.4028235e38), (NULL), (-2.5)"


def test_real_becomes_double_precision_without_a_file_written(
    gateway_process: GatewayProcess, oracle: Server, connection: psycopg.Connection, schema: str
) -> None:
    """Values, a default of rows before, bounds and new rows are PostgreSQL's, and DuckDB's."""
    statements = [
        "CREATE TABLE t (r real)",
        f"INSERT INTO t VALUES {_REALS}",
        "ALTER TABLE t ADD COLUMN d real DEFAULT 0.3",
        "INSERT INTO t VALUES (0.7, 0.1)",
        "ALTER TABLE t ALTER r TYPE double precision, ALTER d TYPE double precision",
        "INSERT INTO t VALUES (0.1, 0.1), (1e300, 1e-300)",
    ]
    questions = [
        "SELECT r, d, r::text, d::text FROM t ORDER BY 1, 2",
        "SELECT count(*) FROM t WHERE r = 0.1::real",
        "SELECT count(*) FROM t WHERE r = 0.10000000149011612",
        "SELECT count(*) FROM t WHERE r = 0.1",
        "SELECT count(*) FROM t WHERE r >= 0.699999988079071 AND r < 0.7",
        "SELECT count(*) FROM t WHERE d > 0.3",
        "SELECT count(*) FROM t WHERE d = 0.3::real",
        "SELECT min(d), max(d), sum(d) FROM t",
    ]
    with psycopg.connect(oracle.url, autocommit=True) as reference:
        connection.execute("SET sluice.hot_rows = 0")
        reference.execute("SET search_path = pg_temp")
        files: set[Path] = set()
        for statement in statements:
            connection.execute(statement.encode())
            reference.execute(statement.encode())
            found = set(gateway_process.data_dir.glob(f"lake/{schema}/**/*.parquet"))
            assert len(found - files) == statement.startswith("INSERT")
            files = found
        for question in questions:
            expected = reference.execute(question.encode()).fetchall()
            assert repr(connection.execute(question.encode()).fetchall()) == repr(expected), question
        whole = reference.execute("SELECT r, d FROM t WHERE r <> 'NaN' ORDER BY 1, 2").fetchall()
    witness = Witness(gateway_process.data_dir)
    try:
        rows = witness.table(f"{schema}.t", witness.snapshot(), "r, d")
        assert sorted(row for row in rows if row[0] is not None and row[0] == row[0]) == whole
    finally:
        witness.close()


def test_a_transaction_that_has_written_reals_commits_doubles(
    gateway: Server, connection: psycopg.Connection, schema: str
) -> None:
    connection.execute("CREATE TABLE t (r real)")
    connection.execute("INSERT INTO t VALUES (0.5)")
    with psycopg.connect(gateway.url, options=f"-csearch_path={schema}") as other:
        other.execute("INSERT INTO t VALUES (0.1)")
        connection.execute("ALTER TABLE t ALTER r TYPE double precision")
        other.commit()
    assert connection.execute("SELECT r FROM t WHERE r = 0.10000000149011612").fetchall() == [(0.10000000149011612,)]
    assert connection.execute("SELECT r FROM t WHERE r > 0.1 AND r < 0.2").fetchall() == [(0.10000000149011612,)]
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (2,)
