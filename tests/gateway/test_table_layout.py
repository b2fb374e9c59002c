"""`sluice.sort_by`, and `sluice.partition_by` where it is alike: syntax, errors, blocks and rights."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from planner.syntax.table_options import SortBy, parsed_sort_key, without_own_options
from tests.servers import GatewayProcess, Server
from tests.witness import Witness


@pytest.fixture
def connection(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connected:
        yield connected


def layout(connection: psycopg.Connection, table: str, option: str = "sort_by") -> str | None:
    sql = f"SELECT {option} FROM pg_sluice.table_layout WHERE relation = %s::text::regclass"
    found = connection.execute(sql.encode(), [table]).fetchone()
    return None if found is None else found[0]


def test_made_and_changed(connection: psycopg.Connection) -> None:
    connection.execute(
        'CREATE TABLE a ("B" int, c text, "d e" date) WITH (sluice.sort_by = \'"B", C desc\', fillfactor = 70)'
    )
    assert layout(connection, "a") == '"B", c DESC'
    options = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'a'::regclass").fetchone()
    assert options == (["fillfactor=70"],)
    connection.execute("ALTER TABLE a SET (sluice.sort_by = '\"d e\" DESC NULLS LAST, c NULLS FIRST')")
    assert layout(connection, "a") == '"d e" DESC NULLS LAST, c NULLS FIRST'
    connection.execute("ALTER TABLE a RESET (sluice.sort_by)")
    assert layout(connection, "a") is None
    connection.execute("ALTER TABLE a ADD COLUMN f int, SET (sluice.sort_by = f, fillfactor = 80)")
    assert layout(connection, "a") == "f"
    options = connection.execute("SELECT reloptions FROM pg_class WHERE oid = 'a'::regclass").fetchone()
    assert options == (["fillfactor=80"],)
    connection.execute("ALTER TABLE a SET (sluice.sort_by = '')")
    assert layout(connection, "a") is None


@pytest.mark.parametrize("extended", [False, True])
def test_made_in_other_ways(connection: psycopg.Connection, extended: bool) -> None:
    def run(sql: str) -> None:
        connection.execute(sql.encode(), [] if extended else None, prepare=extended)

    run("CREATE TABLE s WITH (sluice.sort_by = 'n DESC') AS SELECT n, n::text t FROM generate_series(1, 3) n")
    assert layout(connection, "s") == "n DESC"
    run("CREATE MATERIALIZED VIEW v WITH (sluice.sort_by = 't') AS SELECT * FROM s")
    assert layout(connection, "v") == "t"
    run("ALTER MATERIALIZED VIEW v SET (sluice.sort_by = 'n')")
    assert layout(connection, "v") == "n"
    run("REFRESH MATERIALIZED VIEW v")
    run("CREATE TABLE k (n int PRIMARY KEY)")
    run("CREATE TABLE r (n int REFERENCES k) WITH (sluice.sort_by = 'n')")
    assert layout(connection, "r") == "n"
    run("CREATE TABLE IF NOT EXISTS s (x int) WITH (sluice.sort_by = 'x')")
    assert layout(connection, "s") == "n DESC"
    run("CREATE TABLE IF NOT EXISTS i (x int) WITH (sluice.sort_by = 'x')")
    assert layout(connection, "i") == "x"
    assert connection.execute("SELECT sum(n) FROM v").fetchone() == (6,)


def test_several_statements_in_one_query(connection: psycopg.Connection) -> None:
    connection.execute(
        "CREATE TABLE p (x int) WITH (sluice.sort_by = 'x'); INSERT INTO p VALUES (1);"
        " ALTER TABLE p SET (sluice.sort_by = 'x DESC')"
    )
    assert layout(connection, "p") == "x DESC"
    with pytest.raises(errors.DivisionByZero):
        connection.execute("ALTER TABLE p SET (sluice.sort_by = ''); SELECT 1 / 0")
    assert layout(connection, "p") == "x DESC"


def test_columns_change(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a int, b int, c text) WITH (sluice.sort_by = 'a, b, c')")
    connection.execute("INSERT INTO t VALUES (1, 2, 'x')")
    connection.execute("ALTER TABLE t RENAME COLUMN a TO z")
    assert layout(connection, "t") == "z, b, c"
    connection.execute("ALTER TABLE t DROP COLUMN b")
    assert layout(connection, "t") == "z, c"
    connection.execute("ALTER TABLE t ALTER COLUMN z TYPE text")
    assert layout(connection, "t") == "z, c"
    with pytest.raises(errors.UndefinedFunction, match="could not identify an ordering operator for type json"):
        connection.execute("ALTER TABLE t ALTER COLUMN z TYPE json USING '1'")
    assert layout(connection, "t") == "z, c"
    assert connection.execute("SELECT * FROM t").fetchall() == [("1", "x")]


@pytest.mark.turns
@pytest.mark.parametrize(
    ("value", "raised", "text"),
    [
        ("nothing", errors.UndefinedColumn, 'column "nothing" does not exist'),
        ("xmin", errors.UndefinedColumn, 'column "xmin" does not exist'),
        ('"A"', errors.UndefinedColumn, 'column "A" does not exist'),
        ("a, a DESC", errors.DuplicateColumn, 'column "a" specified more than once'),
        ("j", errors.UndefinedFunction, "could not identify an ordering operator for type json"),
        ("p", errors.UndefinedFunction, "could not identify an ordering operator for type point"),
        ("u", errors.FeatureNotSupported, 'sluice.sort_by with column "u" of type numeric is not supported'),
        ("l", errors.FeatureNotSupported, r'sluice.sort_by with column "l" of type integer\[\] is not supported'),
        ("a +", errors.InvalidParameterValue, 'invalid value for parameter "sluice.sort_by": "a \\+"'),
        ("a,", errors.InvalidParameterValue, "invalid value for parameter"),
        ("lower(a)", errors.InvalidParameterValue, "invalid value for parameter"),
        ("a; DROP TABLE t", errors.InvalidParameterValue, "invalid value for parameter"),
    ],
)
def test_refused_keys(connection: psycopg.Connection, value: str, raised: type[Exception], text: str) -> None:
    connection.execute("CREATE TABLE t (a int, j json, p point, u numeric, l int[])")
    for statement in (
        f"ALTER TABLE t SET (sluice.sort_by = '{value}')",
        f"CREATE TABLE u (a int, j json, p point, u numeric, l int[]) WITH (sluice.sort_by = '{value}')",
    ):
        with pytest.raises(raised, match=text):
            connection.execute(statement.encode())
    assert layout(connection, "t") is None
    assert connection.execute("SELECT to_regclass('u')").fetchone() == (None,)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("ALTER TABLE t SET (sluice.xyz = 'a')", 'unrecognized parameter "xyz"'),
        ("CREATE TABLE u (a int) WITH (sluice.xyz = 'a')", 'unrecognized parameter "xyz"'),
        ("CREATE TEMP TABLE u (a int) WITH (sluice.sort_by = 'a')", 'unrecognized parameter namespace "sluice"'),
        ("CREATE TEMP TABLE u WITH (sluice.sort_by = 'a') AS SELECT 1 a", 'unrecognized parameter namespace "sluice"'),
        ("CREATE TEMP TABLE u (a int) WITH (sluice.partition_by = 'a')", 'unrecognized parameter namespace "sluice"'),
        ("CREATE TABLE u (a int) WITH (slice.sort_by = 'a')", 'unrecognized parameter namespace "slice"'),
        (
            "ALTER TABLE t SET (sluice.sort_by = 'a', sluice.sort_by = 'a')",
            'parameter "sort_by" specified more than once',
        ),
        (
            "ALTER TABLE t SET (sluice.partition_by = 'a', sluice.partition_by = 'a')",
            'parameter "partition_by" specified more than once',
        ),
    ],
)
def test_other_options(connection: psycopg.Connection, statement: str, text: str) -> None:
    connection.execute("CREATE TABLE t (a int)")
    with pytest.raises(errors.InvalidParameterValue, match=text):
        connection.execute(statement.encode())


@pytest.mark.parametrize("option", ["sort_by", "partition_by"])
def test_explained(connection: psycopg.Connection, option: str) -> None:
    connection.execute("CREATE TABLE t (a int)")
    connection.execute(f"EXPLAIN ALTER TABLE t ADD b int, SET (sluice.{option} = 'b')".encode())
    with pytest.raises(errors.UndefinedColumn):
        connection.execute(f"EXPLAIN ALTER TABLE t SET (sluice.{option} = 'b')".encode())
    connection.execute(f"EXPLAIN CREATE TABLE u (a int) WITH (sluice.{option} = 'a')".encode())
    assert layout(connection, "t", option) is None
    assert connection.execute("SELECT to_regclass('u')").fetchone() == (None,)


@pytest.mark.parametrize("option", ["sort_by", "partition_by"])
def test_in_blocks(connection: psycopg.Connection, gateway: Server, schema: str, option: str) -> None:
    connection.execute("CREATE TABLE t (a int, b int)")
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as other:
        connection.execute("BEGIN")
        connection.execute(f"ALTER TABLE t SET (sluice.{option} = 'a')".encode())
        # Nobody waits for the block.
        assert other.execute("INSERT INTO t VALUES (1, 2) RETURNING a").fetchone() == (1,)
        assert layout(other, "t", option) is None
        connection.execute("SAVEPOINT s")
        connection.execute(f"ALTER TABLE t SET (sluice.{option} = 'b')".encode())
        connection.execute("ROLLBACK TO s")
        connection.execute("COMMIT")
        assert layout(other, "t", option) == "a"
        connection.execute("BEGIN")
        connection.execute("ALTER TABLE t RENAME COLUMN b TO c")
        connection.execute(f"ALTER TABLE t SET (sluice.{option} = 'c, a')".encode())
        connection.execute(f"CREATE TABLE n (x int) WITH (sluice.{option} = 'x')".encode())
        connection.execute(f"CREATE TABLE m WITH (sluice.{option} = 'c') AS SELECT * FROM t".encode())
        connection.execute("ROLLBACK")
        assert layout(other, "t", option) == "a"
        connection.execute("BEGIN")
        connection.execute("ALTER TABLE t RENAME COLUMN b TO c")
        connection.execute(f"ALTER TABLE t SET (sluice.{option} = 'c, a')".encode())
        connection.execute(f"CREATE TABLE n (x int) WITH (sluice.{option} = 'x')".encode())
        connection.execute(f"CREATE TABLE m WITH (sluice.{option} = 'c') AS SELECT * FROM t".encode())
        connection.execute("COMMIT")
        assert [layout(other, table, option) for table in "tnm"] == ["c, a", "x", "c"]
        with pytest.raises(errors.UndefinedColumn):
            connection.execute(f"BEGIN; ALTER TABLE t SET (sluice.{option} = 'b')".encode())
        connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("option", "refused"),
    [
        (
            "sort_by",
            (
                "SELECT pg_sluice.set_sort_key(0, '[]')",
                "/*sluice:set_sort_key*/ SELECT pg_sluice.set_sort_key(0, '[]')",
                "DELETE FROM pg_sluice.sort_column",
            ),
        ),
        (
            "partition_by",
            (
                "SELECT pg_sluice.set_partition_key(0, '[]')",
                "/*sluice:set_partition_key*/ SELECT pg_sluice.set_partition_key(0, '[]')",
                "SELECT pg_sluice.publish_partition_key(1, 1, 0)",
                "SELECT pg_sluice.expire_partition_keys(99)",
                "DELETE FROM pg_sluice.partition_column",
                "SELECT * FROM pg_ducklake.ducklake_file_partition_value",
            ),
        ),
    ],
)
def test_only_the_owner(connection: psycopg.Connection, schema: str, option: str, refused: tuple[str, ...]) -> None:
    connection.execute(f"CREATE TABLE t (a int) WITH (sluice.{option} = 'a')".encode())
    connection.execute("CREATE ROLE layout_other; GRANT layout_other TO CURRENT_USER")
    connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO layout_other".encode())
    try:
        connection.execute("SET ROLE layout_other")
        for statement in (
            f"ALTER TABLE t SET (sluice.{option} = '')",
            f"ALTER TABLE t RESET (sluice.{option})",
            f"ALTER TABLE t SET (sluice.{option} = 'a')",
        ):
            with pytest.raises(errors.InsufficientPrivilege, match="must be owner of table t"):
                connection.execute(statement.encode())
        for statement in refused:
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement.encode())
        # Who may do nothing with a table does not see how it is laid out.
        assert layout(connection, f"{schema}.t", option) is None
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY layout_other; DROP ROLE layout_other")
    assert layout(connection, "t", option) == "a"


def test_duckdb_sees_the_key(connection: psycopg.Connection, schema: str, gateway_process: GatewayProcess) -> None:
    connection.execute('CREATE TABLE t (a int, "b""c" text) WITH (sluice.sort_by = \'a DESC, "b""c"\')')
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    connection.execute("ALTER TABLE t RENAME COLUMN a TO d")
    witness = Witness(gateway_process.data_dir)
    try:
        metadata = f"__ducklake_metadata_{witness.lake}.pg_ducklake"
        kept = witness.rows(
            f"SELECT expression, sort_direction, null_order, dialect FROM {metadata}.ducklake_sort_info"
            f" JOIN {metadata}.ducklake_sort_expression USING (sort_id, table_id)"
            f" JOIN {metadata}.ducklake_table USING (table_id)"
            f" JOIN {metadata}.ducklake_schema USING (schema_id) WHERE schema_name = '{schema}' AND table_name = 't'"
            " AND ducklake_sort_info.end_snapshot IS NULL AND ducklake_table.end_snapshot IS NULL"
            " ORDER BY sort_key_index"
        )
        assert kept == [('"d"', "DESC", "NULLS_FIRST", "duckdb"), ('"b""c"', "ASC", "NULLS_LAST", "duckdb")]
        assert witness.rows(f"SELECT * FROM {witness.lake}.{schema}.t") == [(1, "x")]
    finally:
        witness.close()


def test_lists_of_columns() -> None:
    assert parsed_sort_key(' a , "B c" DESC, ÄB nulls first') == (
        SortBy("a", False, False),
        SortBy("B c", True, True),
        SortBy("Äb", False, True),
    )
    assert parsed_sort_key("") == parsed_sort_key("  ") == ()


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("CREATE TABLE t (a int) WITH (sluice.sort_by = 'a')", "CREATE TABLE t (a int)"),
        (
            "CREATE TABLE t (a int) WITH (fillfactor = 70, sluice.sort_by = ', )', x.y = 1) TABLESPACE z",
            "CREATE TABLE t (a int) with (fillfactor = 70, x.y = 1) TABLESPACE z",
        ),
        ("ALTER TABLE t SET (sluice.sort_by = 'a'), ADD b int", "ALTER TABLE t RESET (sluice.sort_by) , ADD b int"),
        ("ALTER TABLE t RESET (sluice.sort_by)", "ALTER TABLE t RESET (sluice.sort_by)"),
        ("CREATE TABLE t (a int) WITH (sluice.partition_by = 'a, bucket(2, b)')", "CREATE TABLE t (a int)"),
        (
            "ALTER TABLE t SET (sluice.sort_by = 'a', fillfactor = 70, sluice.partition_by = 'day(b)')",
            "ALTER TABLE t set (fillfactor = 70)",
        ),
        ("CREATE TABLE t (sluice text CHECK (f('sluice.a')))", "CREATE TABLE t (sluice text CHECK (f('sluice.a')))"),
    ],
)
def test_texts_without_the_option(statement: str, instead: str) -> None:
    made = without_own_options(statement)
    assert " ".join(made.split()) == " ".join(instead.split())
    assert len(made) == len(statement), "what stands behind it is where it was"


def test_beside_a_temporary_table_of_the_name(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TEMP TABLE s (x int)")
    connection.execute("CREATE TABLE s (x int) WITH (sluice.sort_by = 'x')")
    connection.execute("DROP TABLE pg_temp.s")
    assert layout(connection, "s") == "x"
    with pytest.raises(errors.InvalidParameterValue, match="unrecognized parameter namespace"):
        connection.execute("CREATE TABLE pg_temp.u (x int) WITH (sluice.sort_by = 'x')")
    assert connection.execute("SELECT to_regclass('pg_temp.u')").fetchone() == (None,)


def test_explaining_references_sets_nothing(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE k (y int PRIMARY KEY)")
    connection.execute("EXPLAIN CREATE TABLE r (x int REFERENCES k) WITH (sluice.sort_by = 'x')")
    assert layout(connection, "k") is None
