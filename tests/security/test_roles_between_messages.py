"""The role at the Bind of a statement, or the DECLARE of a cursor, decides, as in PostgreSQL.

It may be another one before and after that.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import psycopg
import pytest

from gateway.wire.messages import backend, frontend
from gateway.wire.messages.layout import Message
from tests.gateway.wire import Wire
from tests.servers import Server


@dataclass(frozen=True)
class Roles:
    """`low` reads the rows of `t` that a policy lets it, and no row of `hidden`; the owner may be it."""

    server: Server
    schema: str
    low: str


@pytest.fixture
def roles(target: Server, target_schema: str) -> Iterator[Roles]:
    low = f"low_{secrets.token_hex(4)}"
    with psycopg.connect(target.url, autocommit=True, options=f"-csearch_path={target_schema}") as owner:
        owner.execute(
            f"""
            CREATE ROLE {low} LOGIN; GRANT {low} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
            GRANT USAGE ON SCHEMA {target_schema} TO {low};
            CREATE TABLE t (id integer PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
            CREATE TABLE hidden (id integer, v text); INSERT INTO hidden VALUES (1, 'secret');
            CREATE POLICY own ON t USING (id < 3); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
            GRANT SELECT, UPDATE, DELETE ON t TO {low};
            """.encode()
        )
        yield Roles(target, target_schema, low)
        owner.execute(
            f"DROP TABLE t, hidden; REVOKE USAGE ON SCHEMA {target_schema} FROM {low}; DROP ROLE {low}".encode()
        )


def _statement(sql: str) -> list[Message]:
    return [frontend.Parse("", sql), frontend.Bind("", ""), frontend.Execute("")]


_SYNC: Final = frontend.Sync()
_ALL, _HIDDEN = "SELECT id FROM t ORDER BY id", "SELECT v FROM hidden"


def _told(answers: list[Message]) -> list[str]:
    """Rows, tags and SQLSTATEs."""
    found = []
    for answer in answers:
        match answer:
            case backend.DataRow(values):
                found.append(",".join((value or b"NULL").decode() for value in values))
            case backend.ErrorResponse():
                found.append(answer.to_error().sqlstate)
            case backend.CommandComplete(tag) if not tag.startswith(("SELECT", "FETCH")):
                found.append(tag)
            case _:
                pass
    return found


# Of `low`, then of the owner: what is sent, and what comes back. `{low}` is the role.
STORIES: Final[dict[str, tuple[list[list[Message]], list[str]]]] = {
    "between Parse and Bind": (
        [
            [frontend.Parse("s", _ALL), frontend.Parse("h", _HIDDEN), _SYNC],
            [*_statement("SET ROLE {low}"), _SYNC],
            [frontend.Bind("", "s"), frontend.Execute(""), _SYNC],
            [frontend.Bind("", "h"), frontend.Execute(""), _SYNC],
        ],
        ["SET", "1", "2", "42501"],
    ),
    "between Parse and Bind, without Sync": (
        [
            [
                frontend.Parse("s", _ALL),
                *_statement("SET ROLE {low}"),
                frontend.Bind("", "s"),
                frontend.Execute(""),
                *_statement("RESET ROLE"),
                frontend.Bind("", "s"),
                frontend.Execute(""),
                _SYNC,
            ]
        ],
        ["SET", "1", "2", "RESET", "1", "2", "3"],
    ),
    "between Bind and Execute": (
        [
            [*_statement("BEGIN"), frontend.Parse("h", _HIDDEN), frontend.Bind("p", "h")],
            [*_statement("SET ROLE {low}"), frontend.Execute("p"), *_statement("ROLLBACK"), _SYNC],
        ],
        ["BEGIN", "SET", "secret", "ROLLBACK"],  # rights are asked when it is bound
    ),
    "between Bind and Execute, of one with more rights": (
        [
            [*_statement("BEGIN"), *_statement("SET ROLE {low}"), frontend.Parse("s", _ALL), frontend.Bind("p", "s")],
            [*_statement("RESET ROLE"), frontend.Execute("p"), *_statement("ROLLBACK"), _SYNC],
        ],
        ["BEGIN", "SET", "RESET", "1", "2", "ROLLBACK"],
    ),
    "an UPDATE between Parse and Bind": (
        [
            [frontend.Parse("u", "UPDATE t SET v = 'x'"), _SYNC],
            [*_statement("SET ROLE {low}"), _SYNC],
            [frontend.Bind("", "u"), frontend.Execute(""), _SYNC],
        ],
        ["SET", "UPDATE 2"],
    ),
    "between DECLARE and FETCH": (
        [
            [*_statement("BEGIN"), *_statement(f"DECLARE c CURSOR FOR {_HIDDEN}"), *_statement("SET ROLE {low}")],
            [*_statement("FETCH c"), *_statement("ROLLBACK"), _SYNC],
        ],
        ["BEGIN", "DECLARE CURSOR", "SET", "secret", "ROLLBACK"],
    ),
    "between DECLARE and FETCH, of one with more rights": (
        [
            [*_statement("BEGIN"), *_statement("SET ROLE {low}"), *_statement(f"DECLARE c CURSOR FOR {_ALL}")],
            [*_statement("RESET ROLE"), *_statement("FETCH ALL FROM c"), *_statement("ROLLBACK"), _SYNC],
        ],
        ["BEGIN", "SET", "DECLARE CURSOR", "RESET", "1", "2", "ROLLBACK"],
    ),
    "by a function that is called in between": (
        [
            [frontend.Parse("s", _ALL), frontend.Parse("h", _HIDDEN), _SYNC],
            [*_statement("SELECT set_config('role', '{low}', false) IS NULL"), _SYNC],
            [frontend.Bind("", "s"), frontend.Execute(""), _SYNC],
            [frontend.Bind("", "h"), frontend.Execute(""), _SYNC],
        ],
        ["f", "1", "2", "42501"],
    ),
}


def _named(message: Message, low: str) -> Message:
    if isinstance(message, frontend.Parse):
        return frontend.Parse(message.statement, message.query.replace("{low}", low))
    return message


@pytest.mark.parametrize("kind", STORIES)
def test_the_role_of_the_moment(roles: Roles, kind: str) -> None:
    wire = Wire(roles.server, options=f"-csearch_path={roles.schema}")
    steps, expected = STORIES[kind]
    found = []
    pending: list[Message] = []
    for step in steps:
        pending += [_named(message, roles.low) for message in step]
        if pending[-1] == _SYNC:
            found += _told(wire.ask(*pending))
            pending.clear()
    wire.close()
    assert found == expected
