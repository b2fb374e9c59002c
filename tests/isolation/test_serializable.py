"""SERIALIZABLE: statements that fail, and those that never do. test_histories.py checks that a serial order exists."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import psycopg
import pytest

from tests.isolation.schedule import read, run
from tests.servers import Server

_GOLDEN = Path(__file__).parent.parent / "golden" / "isolation"


def test_write_skew_fails(target: Server, target_schema: str) -> None:
    transcript = run(target, target_schema, read(_GOLDEN / "write-skew.txt", "SERIALIZABLE"))
    assert [line for line in transcript if "ERROR 40001" in line]
    assert "True" in transcript[-1]


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {} (n integer)",
        "CREATE VIEW {} AS SELECT 1 AS n",
        "CREATE SCHEMA {}",
    ],
    ids=["table", "view", "schema"],
)
def test_changes_of_schemas_alone_never_fail_for_others(
    gateway: Server, schema: str, statement: str, prepare: bool
) -> None:
    """PostgreSQL's own catalogs know no such conflict, whatever level the client has chosen for its transactions."""
    options = f"-c search_path={schema} -c default_transaction_isolation=serializable"
    closed = threading.Event()

    def disturb() -> None:
        with psycopg.connect(gateway.url, autocommit=True, options=options) as other:
            while not closed.is_set():
                with contextlib.suppress(psycopg.errors.SerializationFailure):  # it is a block of two
                    other.execute("CREATE TABLE disturbing (n integer); DROP TABLE disturbing")

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        with psycopg.connect(gateway.url, autocommit=True, options=options) as connection:
            for number in range(20):
                name = f"{schema}_{number}" if "SCHEMA" in statement else f"made_{number}"
                connection.execute(statement.format(name).encode(), prepare=prepare)
                if "SCHEMA" in statement:
                    connection.execute(f"DROP SCHEMA {name}".encode(), prepare=prepare)
    finally:
        closed.set()
        disturbing.join(60)


def test_appends_never_fail(target: Server, target_schema: str) -> None:
    """A new row reads none of its table, whether its key is looked up, or what it refers to."""
    transcript = run(target, target_schema, read(_GOLDEN.parent / "serializable" / "appends.txt", "SERIALIZABLE"))
    assert not [line for line in transcript if "ERROR" in line]
    assert transcript[-1].endswith("(1,) (2,) (3,) (4,) (11,) (12,)")


def test_a_transactions_own_tables_never_fail_it(target: Server, target_schema: str) -> None:
    transcript = run(target, target_schema, read(_GOLDEN.parent / "serializable" / "own-tables.txt", "SERIALIZABLE"))
    assert not [line for line in transcript if "ERROR" in line]


def test_a_statement_outside_of_a_block_has_the_sessions_level(target: Server, target_schema: str) -> None:
    transcript = run(target, target_schema, read(_GOLDEN.parent / "serializable" / "alone.txt", "SERIALIZABLE"))
    assert len([line for line in transcript if "ERROR 40001" in line]) == 1
    assert transcript[-1].endswith("(0,)")
