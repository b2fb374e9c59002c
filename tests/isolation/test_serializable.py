"""SERIALIZABLE: whatever several sessions do at random, what was committed could have been done one after another."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.isolation.schedule import read, run
from tests.servers import Server

_KEYS = range(3)
_GOLDEN = Path(__file__).parent.parent / "golden" / "isolation"


@dataclass
class History:
    """A committed transaction: what each of its steps read (all keys at once) or wrote (one key)."""

    steps: list[tuple[str, dict[int, int]]] = field(default_factory=list)


def serial_order(histories: Sequence[History], before: dict[int, int], after: dict[int, int]) -> bool:
    """Whether some order of the transactions, one after another, gives all that was read and what is there at last."""
    for order in itertools.permutations(histories):
        state = dict(before)
        for kind, values in itertools.chain.from_iterable(history.steps for history in order):
            if kind == "write":
                state.update(values)
            elif values != state:
                break
        else:
            if state == after:
                return True
    return False


def transact(server: Server, table: str, seed: int, committed: list[History]) -> None:
    """Some transactions of one session, of which the committed ones are noted."""
    chance = random.Random(seed)
    with psycopg.connect(server.url, autocommit=True) as connection:
        for number in range(2):
            history = History()
            try:
                connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
                for step in range(2):
                    if step == 0 or chance.random() < 0.3:
                        rows = connection.execute(f"SELECT k, v FROM {table}").fetchall()
                        history.steps.append(("read", dict(rows)))
                    else:
                        key, value = chance.choice(_KEYS), seed * 100 + number * 10 + step
                        connection.execute(f"UPDATE {table} SET v = {value} WHERE k = {key}")
                        history.steps.append(("write", {key: value}))
                connection.execute("COMMIT")
                committed.append(history)
            except psycopg.errors.SerializationFailure:
                connection.execute("ROLLBACK")


@pytest.mark.parametrize("seed", [1, 2])
def test_committed_transactions_have_a_serial_order(target: Server, target_schema: str, seed: int) -> None:
    table = f"{target_schema}.register"
    target.psql("-qc", f"CREATE TABLE {table} (k integer, v integer)")
    target.psql("-qc", f"INSERT INTO {table} VALUES (0, 0), (1, 0), (2, 0)")
    committed: list[History] = []
    sessions = [
        threading.Thread(target=transact, args=(target, table, seed * 10 + number, committed)) for number in range(3)
    ]
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()
    after = {int(key): int(value) for key, value in target.query(f"SELECT k, v FROM {table}")}
    assert committed
    assert serial_order(committed, dict.fromkeys(_KEYS, 0), after)


def test_the_checker_finds_write_skew() -> None:
    skewed = [
        History([("read", {0: 0, 1: 0}), ("write", {0: 1})]),
        History([("read", {0: 0, 1: 0}), ("write", {1: 1})]),
    ]
    assert not serial_order(skewed, {0: 0, 1: 0}, {0: 1, 1: 1})
    assert serial_order(skewed[:1], {0: 0, 1: 0}, {0: 1, 1: 0})


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


def test_a_statement_outside_of_a_block_has_the_sessions_level(target: Server, target_schema: str) -> None:
    transcript = run(target, target_schema, read(_GOLDEN.parent / "serializable" / "alone.txt", "SERIALIZABLE"))
    assert len([line for line in transcript if "ERROR 40001" in line]) == 1
    assert transcript[-1].endswith("(0,)")
