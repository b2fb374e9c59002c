"""UNLOGGED tables are ordinary ones, with a notice; `golden/sessions/unlogged.sql` has the rest."""

from __future__ import annotations

import psycopg
import pytest

from planner.syntax.unlogged import as_logged
from tests.servers import Server


@pytest.mark.parametrize("extended", [False, True])
def test_the_client_is_told(gateway: Server, schema: str, extended: bool) -> None:
    heard: list[str | None] = []
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))

        def run(sql: str) -> None:
            connection.execute(sql.encode(), [] if extended else None)

        run(f"SET search_path = {schema}")
        run(f"CREATE UNLOGGED TABLE told_{extended} (a int)")
        run(f"ALTER TABLE told_{extended} SET UNLOGGED")
        told = [each for each in heard if each and "UNLOGGED" in each]
        assert len(told) == 2
        run("SET client_min_messages = warning")
        run(f"CREATE UNLOGGED TABLE untold_{extended} (a int)")
        assert [each for each in heard if each and "UNLOGGED" in each] == told
        found = connection.execute(
            f"SELECT relpersistence FROM pg_class WHERE relname = 'told_{str(extended).lower()}'".encode()
        )
        assert found.fetchall() == [("p",)]


@pytest.mark.parametrize("extended", [False, True])
def test_a_function_makes_none(gateway: Server, schema: str, extended: bool) -> None:
    with psycopg.connect(gateway.url, autocommit=True) as connection:
        made = f"DO $$ BEGIN CREATE UNLOGGED TABLE {schema}.inner_one (a int); END $$"
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute(made.encode(), [] if extended else None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'CREATE UNLOGGED TABLE t'",
        "CREATE TABLE unlogged (unlogged int)",
        'CREATE TABLE "unlogged table" (a int)',
        "SELECT 1 -- create unlogged table",
        "SELECT $$create unlogged table$$",
        "SET unlogged.x = 1",
        "UPDATE t SET unlogged = 1",
        "CREATE UNLOGGED SEQUENCE s",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert as_logged(text) is None


def test_what_stands_behind_keeps_its_position() -> None:
    text = "CREATE/**/UNLOGGED\nTABLE é (a int); ALTER TABLE t ADD b int, SET UNLOGGED; SELECT 'unlogged'"
    instead = as_logged(text)
    assert instead == "CREATE/**/        \nTABLE é (a int); ALTER TABLE t ADD b int, SET LOGGED  ; SELECT 'unlogged'"
