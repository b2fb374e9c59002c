"""Triggers of tables that are too large to be copied, and refusals; the rest is in golden/sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import Server

_ROWS = 210_000  # more than are copied whole to be changed


@pytest.fixture
def connection(gateway: Server, schema: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(
            f"""
            CREATE TABLE large (id integer PRIMARY KEY, n integer, version integer);
            INSERT INTO large SELECT g, g, 1 FROM generate_series(1, {_ROWS}) g;
            CREATE TABLE log (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text);
            CREATE FUNCTION versions() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                NEW.version := OLD.version + 1;
                INSERT INTO log (what) VALUES (TG_OP || ' ' || NEW.id);
                RETURN NEW;
            END $$;
            CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE NOTICE '%', (SELECT count(*) FROM large); RETURN NEW; END $$;
            CREATE TRIGGER versions BEFORE UPDATE ON large FOR EACH ROW EXECUTE FUNCTION versions()""".encode()
        )
        yield connection


def test_rows_of_a_large_table_by_keys(connection: psycopg.Connection) -> None:
    connection.execute("UPDATE large SET n = 0 WHERE id = 5")
    connection.execute("UPDATE large SET n = 0 WHERE id = %s", [7])
    found = connection.execute("SELECT id, n, version FROM large WHERE n = 0 ORDER BY id").fetchall()
    assert found == [(5, 0, 2), (7, 0, 2)]
    assert connection.execute("SELECT what FROM log ORDER BY id").fetchall() == [("UPDATE 5",), ("UPDATE 7",)]
    with pytest.raises(psycopg.errors.UniqueViolation, match=r"Key \(id\)=\(9\) already exists"):
        connection.execute("UPDATE large SET id = 9 WHERE id = 8")
    assert connection.execute("SELECT count(*), sum(version) FROM large").fetchone() == (_ROWS, _ROWS + 2)
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (2,)


@pytest.mark.parametrize("change", ["UPDATE large SET n = 0", "UPDATE large SET n = 0 WHERE n < 5"])
def test_many_rows_of_a_large_table(connection: psycopg.Connection, change: str) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="so large a table that has triggers"):
        connection.execute(change.encode())
    connection.execute("ALTER TABLE large DISABLE TRIGGER versions")
    connection.execute(change.encode())
    assert connection.execute("SELECT max(version) FROM large").fetchone() == (1,)


def test_a_trigger_that_looks_at_all_of_it(connection: psycopg.Connection) -> None:
    """Not at the row alone that is there for the statement."""
    connection.execute("CREATE TRIGGER counts AFTER UPDATE OR INSERT ON large FOR EACH ROW EXECUTE FUNCTION counts()")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="changes rows of so large a lake table"):
        connection.execute("UPDATE large SET n = 0 WHERE id = 5")
    heard: list[str] = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
    connection.execute("INSERT INTO large VALUES (0, 0, 0)")
    assert heard == [str(_ROWS + 1)]


def test_new_rows_of_a_large_table(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE small (id integer PRIMARY KEY, large integer REFERENCES large)")
    connection.execute(
        "CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO log (what) VALUES (TG_TABLE_NAME || NEW.id); RETURN NEW; END $$"
    )
    for table in ("large", "small"):
        connection.execute(
            f"CREATE TRIGGER notes AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION notes()".encode()
        )
    connection.execute("INSERT INTO large VALUES (-1, 0, 0)")
    connection.execute("INSERT INTO small VALUES (1, -1), (2, 77)")
    for statement, error in (
        ("INSERT INTO large VALUES (77, 0, 0)", psycopg.errors.UniqueViolation),
        ("INSERT INTO small VALUES (3, -77)", psycopg.errors.ForeignKeyViolation),
    ):
        with pytest.raises(error):
            connection.execute(statement.encode())
    found = connection.execute("SELECT what FROM log ORDER BY id").fetchall()
    assert found == [("large-1",), ("small1",), ("small2",)]


def test_rows_of_a_large_table_by_a_cursor(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute("DECLARE c CURSOR FOR SELECT id FROM large WHERE id > 100 ORDER BY id FOR UPDATE")
        connection.execute("FETCH c")
        assert connection.execute("UPDATE large SET n = -1 WHERE CURRENT OF c RETURNING *").fetchone() == (101, -1, 2)
        assert connection.execute("UPDATE large SET n = -2 WHERE CURRENT OF c RETURNING *").fetchone() == (101, -2, 3)
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            connection.execute("UPDATE large SET id = 9 WHERE CURRENT OF c")
        connection.execute("CREATE TRIGGER counts BEFORE DELETE ON large FOR EACH ROW EXECUTE FUNCTION counts()")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="so large"), connection.transaction():
            connection.execute("DELETE FROM large WHERE CURRENT OF c")
    assert connection.execute("SELECT id, n, version FROM large WHERE n < 0").fetchall() == [(101, -2, 3)]
    assert connection.execute("SELECT what FROM log ORDER BY id").fetchall() == [("UPDATE 101",)] * 2


@pytest.mark.parametrize(
    "statement",
    [
        "EXPLAIN ANALYZE UPDATE large SET n = 0 WHERE id = 5",
        """CREATE OR REPLACE FUNCTION versions() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE NOTICE '%', current_query(); RETURN NEW; END $$;
            DECLARE c CURSOR FOR TABLE large; FETCH c; UPDATE large SET n = 0 WHERE CURRENT OF c""",
    ],
)
def test_what_is_refused(connection: psycopg.Connection, statement: str) -> None:
    *before, refused = re.split(r";\s+(?=DECLARE|FETCH|UPDATE)", statement)
    connection.execute("BEGIN")
    for each in before:
        connection.execute(each.encode())
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute(refused.encode())
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    assert connection.execute("SELECT n FROM large WHERE id = 5").fetchone() == (5,)


def _copy_slowly(connection: psycopg.Connection) -> None:
    with connection.cursor().copy("COPY slow FROM STDIN") as copy:
        for number in range(4000):
            copy.write(f"{number}\t{'x' * 2000}\n")


def test_a_copy_that_takes_too_long_is_ended(gateway: Server, schema: str) -> None:
    """While the client's data is still on its way to PostgreSQL, whose triggers are slow."""
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute("CREATE TABLE slow (id int, t text)")
        connection.execute(
            "CREATE FUNCTION slept() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$"
        )
        connection.execute("CREATE TRIGGER slept BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION slept()")
        connection.execute("SET statement_timeout = '2s'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            _copy_slowly(connection)
        connection.execute("RESET statement_timeout")
        assert connection.execute("SELECT count(*) FROM slow").fetchone() == (0,)
