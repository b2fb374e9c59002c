"""A bank: eight sessions move money at random, with aborts and savepoints, until the gateway is killed.

Money is neither made nor lost, every acknowledged transfer is in the journal, rolled back ones are not, and DuckDB
agrees.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
import pytest

from tests.chaos.workload import check_lake
from tests.servers import GatewayProcess, Server, open_directory
from tests.witness import Witness

pytestmark = pytest.mark.soak

_SESSIONS = 8
_SECONDS_MAX = 90.0
_TRANSFERS = 8  # committed, before the bank closes or the gateway is killed
_TABLES = ("checking", "savings")
_ACCOUNTS = 6
_MONEY = 2 * _ACCOUNTS * 100
_LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


@dataclass
class Teller:
    """One session. A transfer's number says whose it is; `pending` is one whose COMMIT was not answered."""

    number: int
    committed: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    pending: int | None = None
    failures: list[psycopg.Error] = field(default_factory=list)

    def work(self, server: Server, closed: threading.Event) -> None:
        """Transfers until the bank is closed, or to the end of the connection."""
        chance = random.Random(self.number)
        serial = 0
        try:
            with psycopg.connect(server.url, autocommit=True) as connection:
                while not closed.is_set():
                    serial += 1
                    self._transfer(connection, chance, self.number * 1_000_000 + serial)
        except psycopg.OperationalError as error:
            self.failures.append(error)

    def _transfer(self, connection: psycopg.Connection, chance: random.Random, journal: int) -> None:
        source, target = chance.sample([(table, n) for table in _TABLES for n in range(_ACCOUNTS)], 2)
        amount = chance.randint(1, 20)
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {chance.choice(_LEVELS)}".encode())
            connection.execute(_move(*source, -amount))
            if chance.random() < 0.3:
                connection.execute("SAVEPOINT mistake")
                connection.execute(_move(*target, 1_000_000))
                connection.execute("ROLLBACK TO mistake")
            connection.execute(_move(*target, amount))
            connection.execute("INSERT INTO journal VALUES (%s)", [journal])
            if chance.random() < 0.15:
                connection.execute("ROLLBACK")
                self.given_up.add(journal)
                return
            self.pending = journal
            connection.execute("COMMIT")
            self.committed.add(journal)
            self.pending = None
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            connection.execute("ROLLBACK")
            self.given_up.add(journal)
            self.pending = None


def _move(table: str, account: int, amount: int) -> bytes:
    return f"UPDATE {table} SET balance = balance + {amount} WHERE id = {account}".encode()


@pytest.fixture
def process() -> Iterator[GatewayProcess]:
    with open_directory("bank") as directory, GatewayProcess(directory / "data") as process:
        for table in _TABLES:
            process.server.psql("-qc", f"CREATE TABLE {table} (id integer, balance bigint)")
            process.server.psql("-qc", f"INSERT INTO {table} SELECT n, 100 FROM generate_series(0, {_ACCOUNTS - 1}) n")
        process.server.psql("-qc", "CREATE TABLE journal (number bigint)")
        yield process


def check_books(process: GatewayProcess, tellers: list[Teller]) -> None:
    server = process.server
    written = {int(number) for (number,) in server.query("SELECT number FROM journal")}
    committed = set().union(*(teller.committed for teller in tellers))
    pending = {teller.pending for teller in tellers}
    assert committed <= written
    assert written <= committed | pending
    both = " UNION ALL ".join(f"SELECT * FROM {table}" for table in _TABLES)
    assert server.query(f"SELECT sum(balance), count(*) FROM ({both}) a") == [[str(_MONEY), str(2 * _ACCOUNTS)]]
    witness = Witness(process.data_dir)
    try:
        snapshot = witness.snapshot()
        found = [row for table in _TABLES for row in witness.table(f"public.{table}", snapshot)]
        assert sum(balance for _, balance in found) == _MONEY
        assert {number for (number,) in witness.rows(f"SELECT number FROM {witness.lake}.public.journal")} == written
    finally:
        witness.close()


@pytest.mark.parametrize("killed", [False, True], ids=["to the end", "killed"])
def test_money_is_conserved(process: GatewayProcess, *, killed: bool) -> None:
    tellers = [Teller(number) for number in range(1, _SESSIONS + 1)]
    closed = threading.Event()
    threads = [threading.Thread(target=teller.work, args=(process.server, closed), daemon=True) for teller in tellers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _SECONDS_MAX
    while sum(len(teller.committed) for teller in tellers) < _TRANSFERS and time.monotonic() < deadline:
        time.sleep(0.05)
    if killed:
        process.kill()
    closed.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a session is stuck"
    assert killed or not any(teller.failures for teller in tellers), [teller.failures for teller in tellers]
    if killed:
        process.start()
    check_books(process, tellers)
    assert any(teller.committed for teller in tellers)
    check_lake(process)
