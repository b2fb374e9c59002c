"""Columns of enumerations and domains, as far as a transcript beside PostgreSQL's cannot show them.

That is: refusals over existing rows, the witness, and values in binary. The rest is in golden/sessions.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors
from psycopg.types.enum import EnumInfo, register_enum

from tests.servers import GatewayProcess, Server
from tests.witness import Witness

LABELS = ["zen", "ok", "it's \\ bad", "angry"]


def _connect(server: Server, schema: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url, autocommit=True, options=f"-c search_path={schema}")


@pytest.fixture
def client(gateway: Server, schema: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A table with rows, of which three columns are of types made by users."""
    with _connect(gateway, schema) as connection:
        connection.execute(
            """
            CREATE TYPE mood AS ENUM ('zen', 'ok', 'it''s \\ bad', 'angry');
            CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
            CREATE DOMAIN odd AS positive;
            CREATE DOMAIN short AS varchar(3);
            CREATE TABLE person (id integer PRIMARY KEY, now mood, n odd, s short);
            INSERT INTO person VALUES (1, 'zen', 1, 'abc'), (2, 'angry', 2, NULL), (3, NULL, NULL, 'x');
            """
        )
        yield connection


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("CREATE TABLE other (pair person)", 'column "pair" with rows of a relation'),
        ("CREATE TABLE other (p person[])", 'column "p" with rows of a relation'),
    ],
)
def test_columns_of_rows_are_refused(client: psycopg.Connection[tuple[object, ...]], change: str, why: str) -> None:
    with pytest.raises(errors.FeatureNotSupported, match=why):
        client.execute(change.encode())


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ("ALTER DOMAIN positive ADD CHECK (VALUE < 2)", ("23514", "person", "n", None, None)),
        ("ALTER DOMAIN odd SET NOT NULL", ("23502", "person", "n", None, None)),
        ("ALTER DOMAIN short SET NOT NULL", ("23502", "person", "s", None, None)),
        ("ALTER TABLE person ADD COLUMN more odd DEFAULT -1", ("23514", None, None, "odd", "positive_check")),
        ("ALTER TABLE person ALTER COLUMN id TYPE odd USING -id", ("23514", None, None, "odd", "positive_check")),
        ("UPDATE person SET n = n - 1", ("23514", None, None, "odd", "positive_check")),
    ],
)
def test_errors_name_what_postgresql_names(
    client: psycopg.Connection[tuple[object, ...]],
    schema: str,
    change: str,
    fields: tuple[str, str | None, str | None, str | None, str | None],
) -> None:
    before = client.execute("SELECT id, now, n, s FROM person ORDER BY id").fetchall()
    with pytest.raises(psycopg.Error) as raised:
        client.execute(change.encode())
    found = raised.value.diag
    assert (found.sqlstate, found.table_name, found.column_name, found.datatype_name, found.constraint_name) == fields
    assert found.schema_name == schema
    assert client.execute("SELECT id, now, n, s FROM person ORDER BY id").fetchall() == before
    client.execute("INSERT INTO person VALUES (4, 'ok', 3, NULL)")


def test_spark_makes_values_of_domains_with_rules(gateway: Server, schema: str) -> None:
    """No row can be copied for PostgreSQL to do it."""
    with _connect(gateway, schema) as connection:
        connection.execute(
            """
            CREATE DOMAIN positive AS bigint NOT NULL CHECK (VALUE > 0);
            CREATE DOMAIN below AS positive CHECK (VALUE < 1000000);
            CREATE TABLE many (id below PRIMARY KEY, v bigint);
            INSERT INTO many SELECT n, n FROM generate_series(1, 2000) n;
            SET sluice.load_limit = '1kB';
            """
        )
        connection.execute("UPDATE many SET id = id + 5000 WHERE v % 2 = 0")
        connection.execute("INSERT INTO many SELECT id + 10000, v FROM many WHERE v < 1001")
        for sql in (
            "UPDATE many SET id = id - 100",
            "UPDATE many SET id = v * 1000000",
            "INSERT INTO many SELECT id - 5000, v FROM many",
        ):
            with pytest.raises(errors.CheckViolation, match="value for domain below violates check constraint"):
                connection.execute(sql.encode())
        for sql in ("INSERT INTO many (v) SELECT v FROM many", "UPDATE many SET id = nullif(v, 7) + 20000"):
            with pytest.raises(errors.NotNullViolation, match="domain below does not allow null values"):
                connection.execute(sql.encode())
        counted = connection.execute("SELECT count(*), min(id), max(id), sum(id::bigint - v) FROM many").fetchall()
        assert counted == [(3000, 1, 16000, 5000 * 1000 + 10000 * 1000 + 5000 * 500)]


def test_a_transaction_may_give_the_domain_of_its_own_empty_table_a_constraint(gateway: Server, schema: str) -> None:
    with _connect(gateway, schema) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE DOMAIN d AS integer")
        connection.execute("CREATE TABLE t (v d)")
        connection.execute("ALTER DOMAIN d ADD CHECK (VALUE > 0)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.execute("COMMIT")
        with pytest.raises(errors.CheckViolation):
            connection.execute("UPDATE t SET v = v - 1")
        with pytest.raises(errors.CheckViolation):
            connection.execute("INSERT INTO t SELECT v - 1 FROM t")


@pytest.mark.parametrize("change", ["ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "ALTER DOMAIN positive ADD {}"])
def test_a_table_that_another_session_is_making_counts_too(gateway: Server, schema: str, change: str) -> None:
    with _connect(gateway, schema) as maker, _connect(gateway, schema) as other, ThreadPoolExecutor(1) as pool:
        maker.execute("CREATE TYPE mood AS ENUM ('zen', 'ok')")
        maker.execute("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
        maker.execute("BEGIN")
        maker.execute("CREATE TABLE made (m mood, n positive)")
        maker.execute("INSERT INTO made VALUES ('ok', 5)")
        waiting = pool.submit(other.execute, change.format("CHECK (VALUE < 2)").encode())
        with pytest.raises(TimeoutError):
            waiting.result(1)
        maker.execute("COMMIT")
        label = "ok"
        if "RENAME" in change:
            waiting.result(60)
            label = "fine"
        else:
            with pytest.raises(errors.CheckViolation, match='column "n" of table "made" contains values that violate'):
                waiting.result(60)
        assert other.execute("SELECT m, n FROM made").fetchall() == [(label, 5)]


def test_a_domain_gets_a_check_from_within_a_function(client: psycopg.Connection[tuple[object, ...]]) -> None:
    [[most]] = client.execute("SELECT max(n) FROM person").fetchall()
    with pytest.raises(errors.CheckViolation, match='column "n" of table "person" contains values that violate'):
        client.execute(f"DO $$ BEGIN ALTER DOMAIN positive ADD CHECK (VALUE < {most}); END $$".encode())
    client.execute("DO $$ BEGIN ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 10); END $$")
    with pytest.raises(errors.CheckViolation, match="small"):
        client.execute("UPDATE person SET n = 10")


def test_the_witness_reads_labels(
    client: psycopg.Connection[tuple[object, ...]], gateway_process: GatewayProcess, schema: str
) -> None:
    client.execute("UPDATE person SET now = 'it''s \\ bad' WHERE id = 2")
    client.execute("ALTER TYPE mood RENAME VALUE 'zen' TO 'calm'")
    witness = Witness(gateway_process.data_dir)
    table = f"{witness.lake}.{schema}.person"
    assert witness.rows(f"SELECT id, now, n, s FROM {table} ORDER BY 1") == [
        (1, "calm", 1, "abc"), (2, "it's \\ bad", 2, None), (3, None, None, "x"),
    ]  # fmt: skip
    assert witness.rows(f"SELECT typeof(now), typeof(n), typeof(s) FROM {table} LIMIT 1") == [
        ("VARCHAR", "INTEGER", "VARCHAR")
    ]
    witness.close()


@pytest.mark.parametrize("binary", [False, True])
def test_values_and_parameters_are_those_of_the_enumeration(
    client: psycopg.Connection[tuple[object, ...]], schema: str, binary: bool
) -> None:
    info = EnumInfo.fetch(client, f"{schema}.mood")
    assert info is not None
    mood = enum.Enum("mood", {label: label for label in LABELS})  # type: ignore[misc]  # mypy wants them written out
    register_enum(info, client, mood)
    with client.cursor(binary=binary) as cursor:
        cursor.execute("SELECT id, now FROM person WHERE now >= %s ORDER BY now DESC", [mood["zen"]])
        assert cursor.description is not None
        assert cursor.description[1].type_code == info.oid
        assert cursor.fetchall() == [(2, mood["angry"]), (1, mood["zen"])]
        cursor.execute("INSERT INTO person (id, now) VALUES (4, %s) RETURNING now", [mood["it's \\ bad"]])
        assert cursor.fetchall() == [(mood["it's \\ bad"],)]
        cursor.execute("UPDATE person SET now = %s WHERE now = %s RETURNING id", [mood["ok"], mood["zen"]])
        assert cursor.fetchall() == [(1,)]
        cursor.execute("SELECT now, max(now) FROM person GROUP BY 1 ORDER BY 1")
        labels = [mood["ok"], mood["it's \\ bad"], mood["angry"], None]
        assert cursor.fetchall() == [(label, label) for label in labels]


def _copy_row(cursor: psycopg.Cursor[tuple[object, ...]], row: tuple[object, ...]) -> None:
    with cursor.copy("COPY person (id, now) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        copy.write_row(row)


def test_copy_in_binary(client: psycopg.Connection[tuple[object, ...]]) -> None:
    with client.cursor() as cursor:
        with cursor.copy("COPY person (id, now) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            for row in [(10, "ok"), (11, None), (12, "it's \\ bad")]:
                copy.write_row(row)
        with pytest.raises(errors.InvalidTextRepresentation, match='invalid input value for enum mood: "sad"'):
            _copy_row(cursor, (13, "sad"))
        with cursor.copy("COPY (SELECT now FROM person WHERE id >= 10 ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text"])
            assert list(copy.rows()) == [("ok",), (None,), ("it's \\ bad",)]


def test_others_have_a_label_at_once_and_transactions_of_before_commit(
    client: psycopg.Connection[tuple[object, ...]], gateway: Server, schema: str
) -> None:
    with _connect(gateway, schema) as other:
        other.execute("BEGIN")
        other.execute("INSERT INTO person VALUES (6, 'ok', NULL, NULL)")
        client.execute("ALTER TYPE mood ADD VALUE 'mild' BEFORE 'ok'")
        client.execute("INSERT INTO person VALUES (5, 'mild', NULL, NULL)")
        other.execute("COMMIT")
        other.execute("UPDATE person SET now = 'mild' WHERE now = 'zen'")
        rows = other.execute("SELECT id FROM person WHERE now <= 'ok' ORDER BY now, id").fetchall()
        assert rows == [(1,), (5,), (6,)]
    assert client.execute("SELECT count(*) FROM person WHERE now = 'mild'").fetchall() == [(2,)]
