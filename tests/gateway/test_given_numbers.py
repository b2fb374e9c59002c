"""Numbers of executions that were undone are given again, and none twice: sessions that take them beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from tests.servers import Server

_SESSIONS = 4
_ROUNDS = 12
_MADE = """
CREATE SCHEMA given; SET search_path = given;
CREATE TABLE item (id serial PRIMARY KEY, name text UNIQUE);
CREATE TABLE note (id bigserial PRIMARY KEY, item int REFERENCES item);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO note (item) VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER noted AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION noted();
CREATE SEQUENCE ticket;
CREATE FUNCTION taken(many int) RETURNS SETOF bigint LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('taken', ''); RETURN QUERY SELECT nextval('ticket') + 0 * (SELECT count(*) FROM item)
    FROM generate_series(1, many); END $$;
"""


@contextmanager
def _connected(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.url, autocommit=True, options="-c search_path=given") as connection:
        yield connection


@pytest.fixture(scope="module")
def made(gateway: Server) -> Iterator[Server]:
    with _connected(gateway) as connection:
        connection.execute(_MADE.encode())
        yield gateway
        connection.execute("DROP SCHEMA given CASCADE")


def _numbers(connection: psycopg.Connection, sql: str) -> list[int]:
    return [number for (number,) in connection.execute(sql.encode()).fetchall()]


def test_no_number_is_given_twice(made: Server) -> None:
    def take(session: int) -> list[int]:
        found = []
        with _connected(made) as connection:
            for number in range(_ROUNDS):
                if number % 3 == session % 3:
                    found += _numbers(connection, "SELECT nextval('ticket')")
                with connection.transaction():
                    found += _numbers(connection, f"SELECT taken({number % 3 + 1})")
                    name = f"{session} {number}"
                    connection.execute("INSERT INTO item (name) VALUES (%s)", [name])
                    connection.execute("INSERT INTO item (name) VALUES (%s) ON CONFLICT DO NOTHING", [name])
        return found

    with ThreadPoolExecutor() as threads:
        given = [number for each in threads.map(take, range(_SESSIONS)) for number in each]
    assert len(given) == len(set(given))
    with _connected(made) as connection:
        rows = [("SELECT count(*) FROM item", _SESSIONS * _ROUNDS), ("SELECT count(DISTINCT id) FROM note", 48)]
        assert [(sql, _numbers(connection, sql)[0]) for sql, _ in rows] == rows


def test_who_holds_the_sequence_is_not_waited_for(made: Server) -> None:
    with _connected(made) as other, _connected(made) as connection:
        with other.transaction():
            [held] = _numbers(other, "SELECT nextval('ticket')")
            with connection.transaction():
                [first] = _numbers(connection, "SELECT taken(1)")
        assert first > held
        assert _numbers(other, "SELECT nextval('ticket')") > [first]


def test_numbers_that_a_role_may_not_set_are_not_given_again(made: Server) -> None:
    with _connected(made) as connection:
        connection.execute("CREATE ROLE given_reader; GRANT given_reader TO CURRENT_USER")
        connection.execute("GRANT USAGE ON SCHEMA given TO given_reader; GRANT SELECT ON item TO given_reader")
        connection.execute("GRANT USAGE ON SEQUENCE ticket TO given_reader")
        [last] = _numbers(connection, "SELECT nextval('ticket')")
        connection.execute("SET ROLE given_reader")
        with connection.transaction():
            [number] = _numbers(connection, "SELECT taken(1)")
        assert number > last
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY given_reader; DROP ROLE given_reader")
