"""Columns of enumerations and domains, as far as a transcript beside PostgreSQL's cannot show them: what is refused
while rows are there, the witness, and values in binary. The rest is in golden/sessions."""

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
        ("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "RENAME VALUE"),
        ("ALTER DOMAIN positive ADD CONSTRAINT small CHECK (VALUE < 2)", "a new constraint of a domain"),
        ("ALTER DOMAIN positive ADD CHECK (VALUE < 2) NOT VALID", "a new constraint of a domain"),
        ("ALTER DOMAIN odd SET NOT NULL", "a new constraint of a domain"),
        ("ALTER DOMAIN short SET NOT NULL", "a new constraint of a domain"),
        ("ALTER TABLE person ADD COLUMN more odd", r'column "more" of the domain .*odd'),
        ("ALTER TABLE person ALTER COLUMN id TYPE odd", r'column "id" of the domain .*odd'),
        ("ALTER TABLE person ADD COLUMN moods mood[]", r"of type .*mood\[\]"),
        ("ALTER TABLE person ADD COLUMN pair int4range", "of type int4range"),
        ("CREATE TABLE other (n positive[])", r"of type .*positive\[\]"),
    ],
)
def test_what_would_have_to_look_at_rows_or_change_them_is_refused(
    client: psycopg.Connection[tuple[object, ...]], change: str, why: str
) -> None:
    before = client.execute("SELECT id, now, n, s FROM person ORDER BY id").fetchall()
    with pytest.raises(errors.FeatureNotSupported, match=why):
        client.execute(change.encode())
    assert client.execute("SELECT id, now, n, s FROM person ORDER BY id").fetchall() == before
    client.execute("INSERT INTO person VALUES (4, 'ok', 3, NULL)")


def test_a_constraint_that_is_not_valid_stays_so_while_columns_are_of_its_domain(gateway: Server, schema: str) -> None:
    with _connect(gateway, schema) as connection:
        connection.execute("CREATE DOMAIN d AS integer; ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > 0) NOT VALID")
        connection.execute("CREATE TABLE t (v d)")
        with pytest.raises(errors.CheckViolation):
            connection.execute("INSERT INTO t VALUES (0)")
        with pytest.raises(errors.FeatureNotSupported, match="a new constraint of a domain"):
            connection.execute("ALTER DOMAIN d VALIDATE CONSTRAINT c")
        connection.execute("ALTER DOMAIN d DROP CONSTRAINT c")
        connection.execute("INSERT INTO t VALUES (0)")
        connection.execute("DROP TABLE t")
        connection.execute("ALTER DOMAIN d SET NOT NULL")


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


@pytest.mark.parametrize(
    "change", ["ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "ALTER DOMAIN positive ADD CHECK (VALUE < 2)"]
)
def test_a_table_that_another_session_is_making_counts_too(gateway: Server, schema: str, change: str) -> None:
    with _connect(gateway, schema) as maker, _connect(gateway, schema) as other, ThreadPoolExecutor(1) as pool:
        maker.execute("CREATE TYPE mood AS ENUM ('zen', 'ok')")
        maker.execute("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
        maker.execute("BEGIN")
        maker.execute("CREATE TABLE made (m mood, n positive)")
        maker.execute("INSERT INTO made VALUES ('ok', 5)")
        waiting = pool.submit(other.execute, change.encode())
        with pytest.raises(TimeoutError):
            waiting.result(1)
        maker.execute("COMMIT")
        with pytest.raises(errors.FeatureNotSupported):
            waiting.result(60)
        assert other.execute("SELECT m, n FROM made").fetchall() == [("ok", 5)]


def test_the_witness_reads_labels(
    client: psycopg.Connection[tuple[object, ...]], gateway_process: GatewayProcess, schema: str
) -> None:
    client.execute("UPDATE person SET now = 'it''s \\ bad' WHERE id = 2")
    witness = Witness(gateway_process.data_dir)
    table = f"{witness.lake}.{schema}.person"
    assert witness.rows(f"SELECT id, now, n, s FROM {table} ORDER BY 1") == [
        (1, "zen", 1, "abc"), (2, "it's \\ bad", 2, None), (3, None, None, "x"),
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
    mood = enum.Enum("mood", {label: label for label in LABELS})
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
