"""Several gateways on one catalog: what a change of a schema costs with each, and the check before each statement."""

from __future__ import annotations

import asyncio
import signal
import time
import timeit
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench import measure
from bench.changes import METADATA, metadata
from bench.report import Figure, Report
from catalog.schema.clock import HybridClock
from catalog.schema.synchronisation import Replica, Settings, Word
from tests.servers import GatewayProcess

COUNTS = (1, 2, 4, 8)
_CHECKS = 200_000


def run(report: Report, directory: Path, rounds: int) -> None:
    """Statements that touch no rows, through the first of 1, 2, 4 and 8 gateways; then with one that is paused."""
    settings = Settings()
    report.heading(f"changes of schemas that touch no rows, by gateways on one catalog (DD {settings.delay:g} s)")
    gateways: list[GatewayProcess] = []
    with ExitStack() as stack:
        for count in COUNTS:
            while len(gateways) < count:
                gateway = GatewayProcess(directory / "many", arguments=("--spark", "local[1]"))
                gateways.append(stack.enter_context(gateway))
            first = gateways[0].server
            if count == 1:
                first.psql("-qc", "CREATE TABLE part (n integer)")
            middle, last = measure.percentiles(asyncio.run(metadata(first, rounds)))
            report.add(Figure(f"{count} gateways, p50", middle * 1e3, None, "ms"))
            report.add(Figure(f"{count} gateways, p99", last * 1e3, None, "ms"))
        paused = gateways[-1].process
        paused.send_signal(signal.SIGSTOP)
        try:
            with psycopg.connect(gateways[0].server.url, autocommit=True) as connection:
                for name, statement in zip(("first", "second"), METADATA, strict=False):
                    begin = time.perf_counter()
                    connection.execute(statement.encode())
                    taken = (time.perf_counter() - begin) * 1e3
                    report.add(Figure(f"one of {count} paused, the {name} change", taken, None, "ms"))
        finally:
            paused.send_signal(signal.SIGCONT)
    report.add(Figure("the check before each statement", check_seconds() * 1e6, None, "µs"))


def check_seconds() -> float:
    """What `Replica.serve` takes where nothing has to be waited for."""
    clock = HybridClock(lambda: time.time_ns() // 1000)
    replica = Replica(Settings(delay=3600.0), clock)
    replica.hear(Word(0, clock.now()))
    taken = timeit.timeit(lambda: replica.serve(clock.now()), number=_CHECKS) / _CHECKS
    assert replica.serve(clock.now()) is not None
    return taken
