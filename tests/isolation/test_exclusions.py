"""EXCLUDE constraints between sessions: rows that conflict are never both committed, in PostgreSQL's way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers import Server

Connect = Callable[..., psycopg.Connection]
_FIRST, _SECOND = "INSERT INTO stay VALUES (1, '[1,5)')", "INSERT INTO stay VALUES (2, '[3,7)')"
_VIOLATION = (
    "23P01",
    'conflicting key value violates exclusion constraint "stay_during_excl"',
    "Key (during)=([3,7)) conflicts with existing key (during)=([1,5)).",
)


@pytest.fixture
def connect(target: Server, target_schema: str) -> Connect:
    """Connects to a server with a table under a constraint."""

    def connected(level: str = "read committed") -> psycopg.Connection:
        options = f"-c search_path={target_schema} -c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
        return psycopg.connect(target.url, options=options)

    with connected() as client:
        client.execute("CREATE TABLE stay (id int, during int4range, EXCLUDE USING gist (during WITH &&))")
    return connected


def error_of(client: psycopg.Connection, sql: str) -> tuple[str | None, str | None, str | None] | None:
    """The error of a statement, or None."""
    try:
        client.execute(sql.encode())
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail
    return None


@contextmanager
def waiting(client: psycopg.Connection, sql: str) -> Iterator[list[tuple[str | None, str | None, str | None] | None]]:
    """A statement that waits for what is done inside; its outcome is in the list afterwards."""
    found: list[tuple[str | None, str | None, str | None] | None] = []
    thread = threading.Thread(target=lambda: found.append(error_of(client, sql)))
    thread.start()
    thread.join(0.7)
    assert thread.is_alive()
    yield found
    thread.join(30)
    assert not thread.is_alive()


def rows(connect: Connect) -> list[tuple[int, ...]]:
    with connect() as client:
        return client.execute("SELECT id FROM stay ORDER BY id").fetchall()


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_the_second_waits_and_fails(connect: Connect, level: str) -> None:
    with connect(level) as one, connect(level) as two:
        one.execute(_FIRST)
        two.execute("SELECT count(*) FROM stay")
        with waiting(two, _SECOND) as outcome:
            one.commit()
    assert outcome == [_VIOLATION]
    assert rows(connect) == [(1,)]


def test_the_second_waits_and_goes_on_after_a_rollback(connect: Connect) -> None:
    with connect() as one, connect() as two:
        one.execute(_FIRST)
        with waiting(two, _SECOND) as outcome:
            one.rollback()
    assert outcome == [None]
    assert rows(connect) == [(2,)]


@pytest.mark.parametrize("change", ["DELETE FROM stay", "UPDATE stay SET during = '[10,12)'"])
@pytest.mark.parametrize("commits", [True, False])
def test_the_other_row_is_about_to_go(connect: Connect, change: str, commits: bool) -> None:
    with connect() as one, connect() as two:
        one.execute(_FIRST)
        one.commit()
        one.execute(change.encode())
        with waiting(two, _SECOND) as outcome:
            one.commit() if commits else one.rollback()
    assert outcome == [None if commits else _VIOLATION]
    assert (2,) in rows(connect) or not commits


def test_on_conflict_do_nothing_waits(connect: Connect) -> None:
    with connect() as one, connect() as two:
        one.execute(_FIRST)
        with waiting(two, f"{_SECOND} ON CONFLICT DO NOTHING") as outcome:
            one.commit()
    assert outcome == [None]
    assert rows(connect) == [(1,)]


def test_a_savepoint_goes_back(connect: Connect) -> None:
    with connect() as one, connect() as two:
        one.execute("SAVEPOINT a")
        one.execute(_FIRST)
        one.execute("ROLLBACK TO a")
        assert error_of(two, _SECOND) is None
    assert rows(connect) == [(2,)]


def test_deferred_constraints_are_looked_at_before_commit(connect: Connect) -> None:
    with connect() as one:
        one.execute("ALTER TABLE stay DROP CONSTRAINT stay_during_excl")
        one.execute(
            "ALTER TABLE stay ADD CONSTRAINT stay_during_excl EXCLUDE USING gist (during WITH &&)"
            " DEFERRABLE INITIALLY DEFERRED"
        )
    with connect() as one, connect() as two:
        one.execute(_FIRST)
        two.execute(_SECOND)
        one.commit()
        with pytest.raises(psycopg.errors.ExclusionViolation):
            two.commit()
    assert rows(connect) == [(1,)]


def test_many_sessions_book_the_same(connect: Connect) -> None:
    """Each books one of the same ten places; one session gets each place."""
    outcomes: list[str | None] = []

    def book(number: int) -> None:
        with connect() as client:
            for place in range(number, number + 10):
                at = place % 10
                found = error_of(client, f"INSERT INTO stay VALUES ({at}, '[{at * 2},{at * 2 + 2})')")
                outcomes.append(found and found[0])
                client.commit() if found is None else client.rollback()

    threads = [threading.Thread(target=book, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(None) == 10
    assert outcomes.count("23P01") == 30
    assert rows(connect) == [(number,) for number in range(10)]
