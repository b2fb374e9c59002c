"""`sluice.partition_by`: what PostgreSQL does not know, in its syntax, with its errors, in its transactions."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from planner.syntax.table_options import PartitionBy, parsed_partition_key
from tests.servers import GatewayProcess, Server
from tests.witness import Witness


@pytest.fixture
def connection(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connected:
        yield connected


def layout(connection: psycopg.Connection, table: str) -> tuple[str | None, str | None]:
    sql = "SELECT partition_by, sort_by FROM pg_sluice.table_layout WHERE relation = %s::text::regclass"
    found = connection.execute(sql, [table]).fetchone()
    return (None, None) if found is None else (found[0], found[1])


def test_made_and_changed(connection: psycopg.Connection) -> None:
    connection.execute(
        'CREATE TABLE a ("T""x" text, at timestamptz, "d,e(" date, n int)'
        ' WITH (sluice.partition_by = \'"T""x", MONTH ( AT ), day("d,e("), bucket(016,n)\', fillfactor = 70)'
    )
    assert layout(connection, "a") == ('"T""x", month(at), day("d,e("), bucket(16, n)', None)
    options = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'a'::regclass").fetchone()
    assert options == (["fillfactor=70"],)
    connection.execute("ALTER TABLE a SET (sluice.sort_by = 'n DESC', sluice.partition_by = 'year(at), month(at)')")
    assert layout(connection, "a") == ("year(at), month(at)", "n DESC")
    connection.execute("ALTER TABLE a RESET (sluice.sort_by)")
    assert layout(connection, "a") == ("year(at), month(at)", None)
    connection.execute("ALTER TABLE a SET (sluice.sort_by = n), RESET (sluice.partition_by)")
    assert layout(connection, "a") == (None, "n")
    connection.execute("ALTER TABLE a ADD COLUMN f bigint, SET (sluice.partition_by = f, fillfactor = 80)")
    assert layout(connection, "a") == ("f", "n")
    connection.execute("ALTER TABLE a SET (sluice.partition_by = '')")
    assert layout(connection, "a") == (None, "n")
    connection.execute("CREATE TABLE named (month date, year int) WITH (sluice.partition_by = 'month(month), year')")
    assert layout(connection, "named") == ("month(month), year", None)


@pytest.mark.parametrize("extended", [False, True])
def test_made_in_other_ways(connection: psycopg.Connection, extended: bool) -> None:
    def run(sql: str) -> None:
        connection.execute(sql.encode(), [] if extended else None, prepare=extended)

    run("CREATE TABLE s WITH (sluice.partition_by = 'n') AS SELECT n, n::text t FROM generate_series(1, 3) n")
    assert layout(connection, "s") == ("n", None)
    run("CREATE MATERIALIZED VIEW v WITH (sluice.partition_by = 'bucket(2, t)', sluice.sort_by = t) AS SELECT * FROM s")
    assert layout(connection, "v") == ("bucket(2, t)", "t")
    run("ALTER MATERIALIZED VIEW v SET (sluice.partition_by = 'n')")
    run("REFRESH MATERIALIZED VIEW v")
    assert layout(connection, "v") == ("n", "t")
    run("CREATE TABLE k (n int PRIMARY KEY)")
    run("CREATE TABLE r (n int REFERENCES k) WITH (sluice.partition_by = 'n')")
    assert layout(connection, "r") == ("n", None)
    run("CREATE TABLE IF NOT EXISTS s (x int) WITH (sluice.partition_by = 'x')")
    assert layout(connection, "s") == ("n", None)
    assert connection.execute("SELECT sum(n) FROM v").fetchone() == (6,)


def test_columns_change(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int, b date, c text) WITH (sluice.partition_by = 'a, month(b), year(b), c')")
    connection.execute("INSERT INTO t VALUES (1, '2026-01-02', 'x')")
    connection.execute('ALTER TABLE t RENAME COLUMN b TO "B b"')
    assert layout(connection, "t")[0] == 'a, month("B b"), year("B b"), c'
    connection.execute('ALTER TABLE t ALTER COLUMN a TYPE text, ALTER COLUMN "B b" TYPE timestamptz')
    assert layout(connection, "t")[0] == 'a, month("B b"), year("B b"), c'
    with pytest.raises(errors.InvalidTableDefinition, match='column "B b" of type text has no month'):
        connection.execute('ALTER TABLE t ALTER COLUMN "B b" TYPE text')
    with pytest.raises(errors.FeatureNotSupported, match=r"sluice\.partition_by with column .a. of type double"):
        connection.execute("ALTER TABLE t ALTER COLUMN a TYPE float8 USING a::float8")
    connection.execute('ALTER TABLE t DROP COLUMN "B b"')
    assert layout(connection, "t")[0] == "a, c"
    connection.execute("ALTER TABLE t DROP COLUMN a, DROP COLUMN c")
    assert layout(connection, "t")[0] is None
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("value", "raised", "text"),
    [
        ("nothing", errors.UndefinedColumn, 'column "nothing" does not exist'),
        ("xmin", errors.UndefinedColumn, 'column "xmin" does not exist'),
        ('month("D")', errors.UndefinedColumn, 'column "D" does not exist'),
        ("a, a", errors.DuplicateColumn, 'column "a" specified more than once'),
        ("j", errors.UndefinedFunction, "could not identify an ordering operator for type json"),
        ("bucket(2, p)", errors.UndefinedFunction, "could not identify an ordering operator for type point"),
        ("u", errors.FeatureNotSupported, 'sluice.partition_by with column "u" of type numeric is not supported'),
        ("l", errors.FeatureNotSupported, r'sluice.partition_by with column "l" of type integer\[\] is not supported'),
        ("f", errors.FeatureNotSupported, 'sluice.partition_by with column "f" of type real is not supported'),
        ("bucket(4, b)", errors.FeatureNotSupported, 'sluice.partition_by with column "b" of type boolean'),
        ("bucket(4, m)", errors.FeatureNotSupported, r'sluice.partition_by with column "m" of type numeric\(9,2\)'),
        ("month(a)", errors.InvalidTableDefinition, 'column "a" of type integer has no month'),
        ("hour(d)", errors.InvalidTableDefinition, 'column "d" of type date has no hour'),
        ("day(i)", errors.InvalidTableDefinition, 'column "i" of type time without time zone has no day'),
        ("a +", errors.InvalidParameterValue, 'invalid value for parameter "sluice.partition_by": "a \\+"'),
        ("a,", errors.InvalidParameterValue, "invalid value for parameter"),
        ("a DESC", errors.InvalidParameterValue, "invalid value for parameter"),
        ("week(d)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("month(d", errors.InvalidParameterValue, "invalid value for parameter"),
        ("month(d))", errors.InvalidParameterValue, "invalid value for parameter"),
        ("month(d, a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ('"month"(d)', errors.InvalidParameterValue, "invalid value for parameter"),
        ("bucket(0, a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("bucket(-1, a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("bucket(4097, a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("bucket(1e1, a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("bucket(a, 4)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("a; DROP TABLE t", errors.InvalidParameterValue, "invalid value for parameter"),
    ],
)
def test_refused_keys(connection: psycopg.Connection, value: str, raised: type[Exception], text: str) -> None:
    columns = "a int, b boolean, d date, f real, i time, j json, l int[], m numeric(9, 2), p point, u numeric"
    connection.execute(f"CREATE TABLE t ({columns})".encode())
    for statement in (
        f"ALTER TABLE t SET (sluice.partition_by = '{value}')",
        f"CREATE TABLE u ({columns}) WITH (sluice.partition_by = '{value}')",
    ):
        with pytest.raises(raised, match=text):
            connection.execute(statement.encode())
    assert layout(connection, "t") == (None, None)
    assert connection.execute("SELECT to_regclass('u')").fetchone() == (None,)


def test_duckdb_sees_the_key(connection: psycopg.Connection, schema: str, gateway_process: GatewayProcess) -> None:
    connection.execute(
        'CREATE TABLE t (a int, "b""c" date) WITH (sluice.partition_by = \'bucket(4, a), month("b""c")\')'
    )
    connection.execute("INSERT INTO t VALUES (1, '2026-01-01')")
    connection.execute("ALTER TABLE t RENAME COLUMN a TO d")
    connection.execute("ALTER TABLE t SET (sluice.partition_by = 'd')")
    connection.execute("ALTER TABLE t ALTER d TYPE bigint")
    connection.execute("ALTER TABLE t ALTER d TYPE text")
    witness = Witness(gateway_process.data_dir)
    try:
        metadata = f"__ducklake_metadata_{witness.lake}.pg_ducklake"
        kept = witness.rows(
            "SELECT column_name, transform, i.end_snapshot IS NULL"
            f" FROM {metadata}.ducklake_partition_info i"
            f" JOIN {metadata}.ducklake_partition_column c USING (partition_id, table_id)"
            f" JOIN {metadata}.ducklake_column k ON k.table_id = c.table_id AND k.column_id = c.column_id"
            "      AND k.begin_snapshot <= i.begin_snapshot AND coalesce(k.end_snapshot > i.begin_snapshot, true)"
            f" JOIN {metadata}.ducklake_table t ON t.table_id = c.table_id AND t.end_snapshot IS NULL"
            f" JOIN {metadata}.ducklake_schema USING (schema_id) WHERE schema_name = '{schema}' AND table_name = 't'"
            " ORDER BY i.partition_id, partition_key_index"
        )
        assert kept == [
            ("a", "bucket(4)", False),
            ('b"c', "month", False),
            ("d", "identity", False),  # a wider type is the same column
            ("d", "identity", True),  # another type is another one
        ]
        assert [row[0] for row in witness.rows(f"SELECT d FROM {witness.lake}.{schema}.t")] == ["1"]
    finally:
        witness.close()
    connection.execute("DROP TABLE t")


def test_lists_of_columns() -> None:
    assert parsed_partition_key(' a , Month("B c"),hour(ÄB), bucket ( 3 , "x") ') == (
        PartitionBy("a"),
        PartitionBy("B c", "month"),
        PartitionBy("Äb", "hour"),
        PartitionBy("x", "bucket(3)"),
    )
    assert parsed_partition_key("") == parsed_partition_key("  ") == ()
