"""EXCLUDE constraints over many rows, over rows in files, and for roles that may do little."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers import Server

_TABLE = "CREATE TABLE stay (id int, during int4range, EXCLUDE USING gist (during WITH &&))"


@pytest.fixture
def client(gateway: Server, schema: str) -> psycopg.Connection:
    return psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}")


@pytest.mark.parametrize("hot_rows", [0, 1000])
def test_rows_of_several_parts_and_files(client: psycopg.Connection, hot_rows: int) -> None:
    with client:
        client.execute(f"SET sluice.hot_rows = {hot_rows}".encode())
        client.execute(_TABLE)
        client.execute("INSERT INTO stay SELECT n, int4range(3 * n, 3 * n + 2) FROM generate_series(1, 21000) n")
        client.execute("DELETE FROM stay WHERE id = 20500")
        client.execute("INSERT INTO stay VALUES (1, '[61500,61502)')")
        for row in ("(1, '[61400,61403)')", "(1, '[2,4)')", "(1, '[61501,61502)')"):
            with pytest.raises(psycopg.errors.ExclusionViolation):
                client.execute(f"INSERT INTO stay VALUES {row}".encode())
        with pytest.raises(psycopg.errors.ExclusionViolation) as raised:
            client.execute("INSERT INTO stay SELECT n, int4range(n, n + 1) FROM generate_series(-40, 21000) n")
        assert raised.value.diag.message_detail == "Key (during)=([3,4)) conflicts with existing key (during)=([3,5))."
        client.execute("INSERT INTO stay SELECT n, int4range(n, n + 1) FROM generate_series(-40, 2) n")
        assert client.execute("SELECT count(*) FROM stay").fetchone() == (21_043,)


def test_a_role_without_temporary_tables(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    with client:
        client.execute(_TABLE)
        client.execute("CREATE ROLE excluding_guest")
        try:
            client.execute(f"GRANT USAGE ON SCHEMA {schema} TO excluding_guest".encode())
            client.execute("GRANT INSERT ON stay TO excluding_guest; GRANT excluding_guest TO sluice WITH SET TRUE")
            client.execute("REVOKE TEMPORARY ON DATABASE sluice FROM PUBLIC")
            client.execute("SET ROLE excluding_guest")
            client.execute("INSERT INTO stay SELECT n, int4range(n, n + 1) FROM generate_series(1, 40) n")
            with pytest.raises(psycopg.errors.ExclusionViolation, match="exclusion constraint") as raised:
                client.execute("INSERT INTO stay SELECT n, int4range(n, n + 1) FROM generate_series(40, 80) n")
            assert raised.value.diag.message_detail == "Key conflicts with existing key."
        finally:
            client.execute("RESET ROLE; GRANT TEMPORARY ON DATABASE sluice TO PUBLIC")
            client.execute("DROP OWNED BY excluding_guest; DROP ROLE excluding_guest")


def test_a_role_that_may_not_name_what_decides(client: psycopg.Connection, schema: str) -> None:
    with client:
        client.execute("CREATE ROLE excluding_guest")
        client.execute(f"CREATE SCHEMA {schema}_hidden".encode())
        try:
            client.execute(
                f"CREATE FUNCTION {schema}_hidden.two(n int) RETURNS int4range LANGUAGE sql IMMUTABLE"
                " AS 'SELECT int4range(n, n + 2)'".encode()
            )
            client.execute(f"CREATE TABLE t (n int, EXCLUDE USING gist ({schema}_hidden.two(n) WITH &&))".encode())
            client.execute(f"GRANT USAGE ON SCHEMA {schema} TO excluding_guest".encode())
            client.execute("INSERT INTO t VALUES (1)")
            client.execute("GRANT INSERT ON t TO excluding_guest; GRANT excluding_guest TO sluice WITH SET TRUE")
            client.execute("SET ROLE excluding_guest")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="without its USAGE"):
                client.execute("INSERT INTO t VALUES (1)")
        finally:
            client.execute("RESET ROLE; DROP OWNED BY excluding_guest; DROP ROLE excluding_guest")
            client.execute(f"DROP SCHEMA {schema}_hidden CASCADE".encode())


def test_names_of_the_session_decide_nothing(client: psycopg.Connection, schema: str) -> None:
    """A function and an operator before PostgreSQL's own in the search path."""
    with client:
        client.execute("CREATE TABLE t (n int, EXCLUDE USING gist (int4range(n, n + 2) WITH &&))")
        client.execute("CREATE FUNCTION int4range(int, int) RETURNS int4range LANGUAGE sql AS 'SELECT NULL::int4range'")
        client.execute("CREATE OPERATOR && (LEFTARG = anyrange, RIGHTARG = anyrange, FUNCTION = range_adjacent)")
        client.execute(f"SET search_path = {schema}, pg_catalog".encode())
        client.execute("INSERT INTO t VALUES (1)")
        for rows in ("(2)", "(1)", "(7), (8)"):
            with pytest.raises(psycopg.errors.ExclusionViolation):
                client.execute(f"INSERT INTO t VALUES {rows}".encode())


def test_a_transaction_from_before_the_constraint(client: psycopg.Connection, gateway: Server, schema: str) -> None:
    with client, psycopg.connect(gateway.url, options=f"-c search_path={schema}") as other:
        client.execute("CREATE TABLE t (r int4range)")
        client.execute("INSERT INTO t VALUES ('[1,3)')")
        other.execute("INSERT INTO t VALUES ('[2,4)')")
        client.execute("ALTER TABLE t ADD EXCLUDE USING gist (r WITH &&)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.commit()
        assert client.execute("SELECT count(*) FROM t").fetchone() == (1,)
