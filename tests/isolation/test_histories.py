"""Random transactions of several sessions: the committed ones are possible at their isolation level."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

from tests.isolation.history import Step, Transaction, serial_order, snapshot_order
from tests.servers import Server

_BEFORE = {0: 1, 1: 2, 2: 3, 3: 4}
_KEYS = range(4 + 3 * 2 * 3)
_CHECKS = {"SERIALIZABLE": serial_order, "REPEATABLE READ": snapshot_order}
_READS = ("rows", "sum")
_WRITES = ("write", "write", "add", "insert", "insert", "delete")


def _transacted(
    connection: psycopg.Connection, table: str, level: str, chance: random.Random, fresh: int
) -> Transaction | None:
    """A transaction of random steps, the first of which reads, and which inserts keys from `fresh` on, that nobody else
    does; None where it was not committed."""
    transaction = Transaction(begun=time.monotonic())
    try:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        for number in range(3):
            kind = chance.choice(_READS if number == 0 or chance.random() < 0.2 else _WRITES)
            low = fresh + number if kind == "insert" else chance.choice(_KEYS[:8])
            high = low if kind == "insert" else low + chance.choice((0, 1, len(_KEYS)))
            step = Step(kind, low, high, chance.randrange(10, 1000), None)
            cursor = connection.execute(step.sql(table).encode())
            told = cursor.fetchall() if kind in _READS else cursor.rowcount
            transaction.steps.append(Step(kind, low, high, step.value, told))
        connection.execute("COMMIT")
    except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
        connection.execute("ROLLBACK")
        return None
    transaction.committed = time.monotonic()
    return transaction


@pytest.mark.parametrize("level", list(_CHECKS))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_committed_transactions_could_have_happened(target: Server, target_schema: str, level: str, seed: int) -> None:
    table = f"{target_schema}.register"
    target.psql("-qc", f"CREATE TABLE {table} (k integer PRIMARY KEY, v integer)")
    target.psql("-qc", f"INSERT INTO {table} VALUES {', '.join(map(str, _BEFORE.items()))}")
    committed: list[Transaction] = []

    def transact(number: int) -> None:
        chance = random.Random(seed * 10 + number)
        with psycopg.connect(target.url, autocommit=True) as connection:
            for turn in range(2):
                fresh = len(_BEFORE) + (number * 2 + turn) * 3
                transaction = _transacted(connection, table, level, chance, fresh)
                if transaction is not None:
                    committed.append(transaction)

    sessions = [threading.Thread(target=transact, args=(number,)) for number in range(3)]
    for session in sessions:
        session.start()
    for session in sessions:
        session.join()
    after = {int(key): int(value) for key, value in target.query(f"SELECT k, v FROM {table}")}
    assert committed
    assert _CHECKS[level](committed, _BEFORE, after), committed


def _row(key: int, value: int) -> Step:
    return Step("rows", key, key, 0, [(key, value)])


def _write(key: int, value: int) -> Step:
    return Step("write", key, key, value, 1)


@pytest.mark.parametrize(
    ("history", "after", "serial", "snapshots"),
    [
        pytest.param(
            [[_row(0, 1), _row(1, 2), _write(0, 9)], [_row(0, 1), _row(1, 2), _write(1, 9)]],
            {0: 9, 1: 9},
            False,
            True,
            id="write skew",
        ),
        pytest.param(
            [[_row(0, 1), _write(0, 8)], [_row(0, 1), _write(0, 9)]], {0: 9, 1: 2}, False, False, id="lost update"
        ),
        pytest.param([[_row(0, 1), _row(0, 9)], [_write(0, 9)]], {0: 9, 1: 2}, False, False, id="non-repeatable read"),
        pytest.param(
            [[Step("sum", 0, 5, 0, [(2, 3)]), Step("rows", 2, 2, 0, [(2, 7)])], [Step("insert", 2, 2, 7, 1)]],
            {0: 1, 1: 2, 2: 7},
            False,
            False,
            id="phantom",
        ),
        pytest.param(
            [[_row(0, 9), _row(1, 2)], [_row(0, 1), _row(1, 9)], [_write(0, 9)], [_write(1, 9)]],
            {0: 9, 1: 9},
            False,
            False,
            id="long fork",
        ),
        pytest.param(
            [[Step("sum", 0, 5, 0, [(2, 3)]), Step("insert", 2, 2, 5, 1)], [Step("delete", 0, 5, 0, 3)]],
            {},
            True,
            True,
            id="one after another",
        ),
        pytest.param(
            [[Step("sum", 0, 5, 0, [(2, 3)]), Step("insert", 2, 2, 5, 1)], [Step("delete", 0, 5, 0, 2), _row(1, 2)]],
            {2: 5},
            False,
            False,
            id="row seen after its deletion",
        ),
    ],
)
def test_the_checkers_tell_anomalies(
    history: list[list[Step]], after: dict[int, int], serial: bool, snapshots: bool
) -> None:
    transactions = [Transaction(steps, 0.0, 1.0) for steps in history]
    assert serial_order(transactions, {0: 1, 1: 2}, after) is serial
    assert snapshot_order(transactions, {0: 1, 1: 2}, after) is snapshots


def test_the_checker_of_snapshots_knows_what_was_committed_before() -> None:
    stale = [Transaction([_write(0, 9)], 0.0, 1.0), Transaction([_row(0, 1)], 2.0, 3.0)]
    assert not snapshot_order(stale, {0: 1}, {0: 9})
    assert serial_order(stale, {0: 1}, {0: 9})
