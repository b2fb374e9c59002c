"""Keys and references between transactions that do not wait for each other: the second to commit gets the error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from gateway.execution.locks.key_claims import CLAIMS_MAX
from gateway.execution.locks.row_locks import ROWS_MAX
from tests.servers import Server


@contextmanager
def connected(server: Server, schema: str) -> Iterator[psycopg.Connection]:
    """A connection whose transactions are begun by its first statement."""
    with psycopg.connect(server.url, options=f"-c search_path={schema}") as connection:
        yield connection


@pytest.fixture
def schema(gateway: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema of the test's own."""
    name = request.node.originalname
    gateway.psql("-qc", f"CREATE SCHEMA {name}")
    yield name
    gateway.psql("-qc", f"SET client_min_messages = warning; DROP SCHEMA {name} CASCADE")


def copy_numbers(connection: psycopg.Connection, first: int, count: int) -> None:
    """Rows first … first + count - 1 into the table `number`."""
    with connection.cursor().copy("COPY number FROM STDIN") as copy:
        copy.write("".join(f"{n}\n" for n in range(first, first + count)))


def test_bulk_against_bulk(gateway: Server, schema: str) -> None:
    """Nobody claims so many keys: the second to commit looks again."""
    with connected(gateway, schema) as one, connected(gateway, schema) as other:
        one.execute("CREATE TABLE number (n integer PRIMARY KEY)")
        one.commit()
        copy_numbers(one, 0, CLAIMS_MAX + 1)
        copy_numbers(other, CLAIMS_MAX, CLAIMS_MAX + 1)
        one.commit()
        with pytest.raises(psycopg.errors.UniqueViolation) as raised:
            other.commit()
        assert raised.value.diag.message_detail == f"Key (n)=({CLAIMS_MAX}) already exists."
        copy_numbers(other, CLAIMS_MAX + 1, CLAIMS_MAX + 1)
        other.commit()
        [row] = one.execute("SELECT count(*), count(DISTINCT n) FROM number").fetchall()
        assert row == (2 * CLAIMS_MAX + 2,) * 2


def test_one_row_against_bulk(gateway: Server, schema: str) -> None:
    """A claimed key that bulk has written as well."""
    with connected(gateway, schema) as one, connected(gateway, schema) as other:
        one.execute("CREATE TABLE number (n integer PRIMARY KEY)")
        one.commit()
        copy_numbers(one, 0, CLAIMS_MAX + 1)
        other.execute("INSERT INTO number VALUES (5)")
        one.commit()
        with pytest.raises(psycopg.errors.UniqueViolation, match="number_pkey"):
            other.commit()
        [row] = one.execute("SELECT count(*) FROM number WHERE n = 5").fetchall()
        assert row == (1,)


def test_one_look_stands_for_all_rows_of_a_transaction(gateway: Server, schema: str) -> None:
    """The row that collides came after the look that is repeated at COMMIT."""
    with connected(gateway, schema) as one, connected(gateway, schema) as other:
        one.execute("CREATE TABLE number (n integer PRIMARY KEY)")
        one.commit()
        copy_numbers(other, 10, CLAIMS_MAX + 1)
        for n in (1, 2, 15):
            one.execute("INSERT INTO number VALUES (%s)", [n])
        other.commit()
        with pytest.raises(psycopg.errors.UniqueViolation) as raised:
            one.commit()
        assert raised.value.diag.message_detail == "Key (n)=(15) already exists."
        [row] = other.execute("SELECT count(*) FROM number").fetchall()
        assert row == (CLAIMS_MAX + 1,)


@pytest.mark.parametrize("first", ["child", "parent"])
def test_bulk_reference_against_deletion(gateway: Server, schema: str, first: str) -> None:
    """Of so many keys nobody locks each: one of the two comes too late, and hears of it at COMMIT."""
    with connected(gateway, schema) as child, connected(gateway, schema) as parent:
        child.execute("CREATE TABLE number (n integer PRIMARY KEY)")
        child.execute("CREATE TABLE account (n integer REFERENCES number)")
        copy_numbers(child, 0, ROWS_MAX + 1)
        child.commit()
        child.execute("INSERT INTO account SELECT n FROM number")
        parent.execute("DELETE FROM number WHERE n = 1")
        early, late = (child, parent) if first == "child" else (parent, child)
        early.commit()
        with pytest.raises(psycopg.errors.ForeignKeyViolation) as raised:
            late.commit()
        expected = {
            "child": 'Key (n)=(1) is still referenced from table "account".',
            "parent": 'Key (n)=(1) is not present in table "number".',
        }
        assert raised.value.diag.message_detail == expected[first]
        [row] = child.execute("SELECT count(*) FROM account WHERE n NOT IN (SELECT n FROM number)").fetchall()
        assert row == (0,)


def test_reference_against_bulk_deletion(gateway: Server, schema: str) -> None:
    """A deletion of so many rows locks all of the table: it waits for a new reference to one of them."""
    with connected(gateway, schema) as child, connected(gateway, schema) as parent:
        child.execute("CREATE TABLE number (n integer PRIMARY KEY)")
        child.execute("CREATE TABLE account (n integer REFERENCES number)")
        copy_numbers(child, 0, ROWS_MAX + 1)
        child.commit()
        child.execute("INSERT INTO account VALUES (7)")
        parent.execute("SET lock_timeout = '300ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            parent.execute("DELETE FROM number")
        parent.rollback()
        child.commit()
        with pytest.raises(psycopg.errors.ForeignKeyViolation, match="account_n_fkey"):
            parent.execute("DELETE FROM number")


def test_reference_beside_other_deletion(gateway: Server, schema: str) -> None:
    """A look that must be repeated at COMMIT finds nothing wrong."""
    with connected(gateway, schema) as child, connected(gateway, schema) as parent:
        child.execute("CREATE TABLE branch (id integer PRIMARY KEY)")
        child.execute("CREATE TABLE account (id integer PRIMARY KEY, branch integer REFERENCES branch)")
        child.execute("INSERT INTO branch VALUES (1), (2)")
        child.commit()
        child.execute("INSERT INTO account VALUES (1, 1)")
        parent.execute("DELETE FROM branch WHERE id = 2")
        parent.execute("INSERT INTO account VALUES (2, 1)")
        parent.commit()
        child.commit()
        assert child.execute("SELECT * FROM account ORDER BY id").fetchall() == [(1, 1), (2, 1)]


def test_deletion_undone_by_a_savepoint(gateway: Server, schema: str) -> None:
    """A key that was deleted, and is there again, is nobody's obstacle at COMMIT."""
    with connected(gateway, schema) as child, connected(gateway, schema) as parent:
        child.execute("CREATE TABLE branch (id integer PRIMARY KEY)")
        child.execute("CREATE TABLE account (id integer, branch integer REFERENCES branch)")
        child.execute("INSERT INTO branch VALUES (1), (2)")
        child.commit()
        parent.execute("SAVEPOINT here")
        parent.execute("DELETE FROM branch WHERE id = 1")
        parent.execute("ROLLBACK TO here")
        parent.execute("DELETE FROM branch WHERE id = 2")
        child.execute("INSERT INTO account VALUES (1, 1)")
        child.commit()
        parent.commit()
        assert child.execute("SELECT id FROM branch").fetchall() == [(1,)]


def test_many_sessions_and_few_keys(gateway: Server, schema: str) -> None:
    """Sessions that all want the same keys: each key is given once."""
    keys, sessions = 12, 6
    taken: list[int] = []
    with connected(gateway, schema) as connection:
        connection.execute("CREATE TABLE number (n integer PRIMARY KEY)")
    faults: list[Exception] = []

    def take(session: int) -> None:
        try:
            with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as connection:
                for n in range(keys):
                    try:
                        connection.execute("INSERT INTO number VALUES (%s)", [(n + session) % keys])
                        taken.append((n + session) % keys)
                    except psycopg.errors.UniqueViolation:
                        continue
        except Exception as fault:  # noqa: BLE001  shown by the test
            faults.append(fault)

    threads = [threading.Thread(target=take, args=(session,)) for session in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert sorted(taken) == list(range(keys))
    with connected(gateway, schema) as connection:
        found = connection.execute("SELECT n FROM number ORDER BY n").fetchall()
    assert found == [(n,) for n in range(keys)]
