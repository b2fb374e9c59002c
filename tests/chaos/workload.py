"""A client that counts its acknowledged statements while processes are killed around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import psycopg

from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server

ROWS = 200_000
PREPARATION = (
    "TRUNCATE ledger",
    f"INSERT INTO ledger SELECT n, 0, 'note ' || n FROM generate_series(1, {ROWS}) AS n",
)
Totals = tuple[int, int]


def totals(server: Server) -> Totals:
    """(rows, sum of state): what tells a ledger from what it was before any one statement."""
    ((rows, states),) = server.query("SELECT count(*), coalesce(sum(state), 0) FROM ledger")
    return int(rows), int(states)


def check_lake(process: GatewayProcess, *, orphans: bool = True) -> None:
    """`sluice check` finds no fault. Files that a killed statement left behind are named, and are no fault of data: the
    next start removes them (`orphans` false: there must be none)."""
    checked = ask_sluice("check", "--data-dir", str(process.data_dir))
    faults = [line for line in checked.stdout.splitlines()[:-1] if not (orphans and line.startswith("orphan: "))]
    assert not faults, checked.stdout + checked.stderr
    assert checked.returncode in {0, 1}, checked.stderr


def copy_in(server: Server, rows: Iterable[tuple[int, int, str]]) -> None:
    """COPY rows into the ledger; raises psycopg.Error unless all of it was acknowledged."""
    with psycopg.connect(server.url, autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY ledger FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount >= 0


def execute(server: Server, sql: str) -> None:
    """Run one statement; raises psycopg.Error unless it was acknowledged."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql)


@dataclass
class Statement:
    """A statement on its way in a thread of its own."""

    run: Callable[[], None]
    acknowledged: bool = False
    error: psycopg.Error | None = None
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._thread.start()

    def _perform(self) -> None:
        try:
            self.run()
        except psycopg.Error as error:
            self.error = error
        else:
            self.acknowledged = True

    @property
    def on_its_way(self) -> bool:
        """Neither acknowledged nor failed yet."""
        return self._thread.is_alive()

    def wait(self, seconds: float = 120.0) -> None:
        """Until the client knows; a client that is never told fails the test."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the client was never told"


def endless_rows(first: int, seconds: float) -> Iterable[tuple[int, int, str]]:
    """Rows for a COPY that takes about this long to send."""
    deadline = time.monotonic() + seconds
    number = first
    while time.monotonic() < deadline:
        for _ in range(1000):
            number += 1
            yield number, 1, "x" * 50
        time.sleep(0.005)
