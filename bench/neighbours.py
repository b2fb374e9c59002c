"""What one client can do to another's time: the slowest `SELECT 1`, and look-ups by key, beside whatever is worst.

Each way goes on for some seconds. A process of its own asks meanwhile, on connections that are open already, so that it
waits for nothing but the gateway. Look-ups are compared with those of a quiet time just before.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from typing import Final

import psycopg

from bench.report import Figure, Report
from tests.servers import Server

_SECONDS: Final = 4.0
_ROWS: Final = 20_000
_MEGABYTE: Final = 1 << 20
_ROW: Final = "({0}, 'row {0}')"
_BOTH: Final = "(id = {0} AND t <> 'r{0}')"
_SETUP: Final = f"""
CREATE TABLE looked_up (id integer PRIMARY KEY, t text);
INSERT INTO looked_up SELECT n, 'row ' || n FROM generate_series(1, {_ROWS}) n;
CREATE TABLE much AS SELECT n, repeat(md5(n::text), 8) AS t FROM generate_series(1, 1000000) n;
CREATE TABLE taken (n integer, t text);
"""


def _ask(url: str, pipe: Connection) -> None:
    """Ask in turn until told to end; send the seconds of each."""
    ones: list[float] = []
    found: list[float] = []
    with psycopg.connect(url, autocommit=True) as client:
        number = 0
        while not pipe.poll():
            number += 1
            begin = time.perf_counter()
            client.execute("SELECT 1")
            ones.append(time.perf_counter() - begin)
            if number % 20 == 0:
                begin = time.perf_counter()
                client.execute(f"SELECT t FROM looked_up WHERE id = {number % _ROWS + 1}".encode()).fetchall()
                found.append(time.perf_counter() - begin)
            time.sleep(0.005)
    pipe.send((ones, found))


@contextmanager
def _asking(server: Server) -> Iterator[list[list[float]]]:
    """The seconds of each `SELECT 1`, and of each look-up, which are there in the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_ask, args=(server.url, theirs))
    process.start()
    taken: list[list[float]] = []
    try:
        time.sleep(1.0)  # it has connected, and asked once
        yield taken
        ours.send(None)
        taken.extend(ours.recv())
    finally:
        process.join(30)


def _again(server: Server, sql: str) -> None:
    """The statement, again and again; that it may be refused is no matter here."""
    text = sql.encode()
    end = time.monotonic() + _SECONDS
    with psycopg.connect(server.url, autocommit=True) as client:
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.errors.StatementTooComplex, psycopg.errors.FeatureNotSupported):
                client.execute(text)


def _advisory_locks(server: Server) -> None:
    with psycopg.connect(server.url, autocommit=True) as client:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            client.execute(
                "SELECT pg_try_advisory_lock(classid::integer, objid::bigint::bit(32)::integer)"
                " FROM pg_locks WHERE locktype = 'advisory'"
            )
            client.execute("SELECT pg_try_advisory_lock(hashtext('sluice clock'), 0)")


def _many_connections(server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(400):
            with contextlib.suppress(psycopg.OperationalError):  # 53300
                opened.enter_context(psycopg.connect(server.url, autocommit=True))


def _silent_connections(server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(closing(socket.create_connection((server.host, server.port))))
        time.sleep(_SECONDS)


def _large_message_before_login(server: Server) -> None:
    with closing(socket.create_connection((server.host, server.port))) as client:
        name = b"user\0" + server.user.encode() + b"\0\0"
        client.sendall(struct.pack("!ii", 8 + len(name), 196608) + name)
        with contextlib.suppress(OSError):
            client.sendall(b"p" + struct.pack("!i", 300 * _MEGABYTE))
            for _ in range(300):
                client.sendall(bytes(_MEGABYTE))


def _slow_readers(server: Server) -> None:
    """Ten that ask for much and read nothing, and another's grouping, which is answered nevertheless."""
    with ExitStack() as opened:
        for _ in range(10):
            client = opened.enter_context(psycopg.connect(server.url, autocommit=True))
            client.pgconn.send_query(b"SELECT * FROM much")
        with psycopg.connect(server.url, autocommit=True) as other:
            other.execute("SET statement_timeout = '60s'")
            other.execute("SELECT n % 10, count(*) FROM much GROUP BY 1").fetchall()


def _literal(megabytes: int) -> str:
    return f"INSERT INTO taken VALUES (1, '{'x' * (megabytes * _MEGABYTE)}')"


def _listed(count: int, form: str, separator: str) -> str:
    return separator.join(form.format(number) for number in range(count))


def _ways() -> dict[str, Callable[[Server], None]]:
    statements = {
        "literal of 8 MB": _literal(8),
        "literal of 64 MB": _literal(64),
        "20,000 rows of VALUES": f"INSERT INTO taken VALUES {_listed(20_000, _ROW, ', ')}",
        "IN list of 20,000": f"SELECT t FROM looked_up WHERE id IN ({_listed(20_000, '{}', ', ')})",
        "3,000 ORs": f"SELECT t FROM looked_up WHERE {_listed(3_000, _BOTH, ' OR ')}",
    }
    return {
        "nothing": lambda _: time.sleep(_SECONDS),
        "advisory locks": _advisory_locks,
        **{name: lambda server, sql=sql: _again(server, sql) for name, sql in statements.items()},  # type: ignore[misc]
        "400 connections": _many_connections,
        "20 connections that say nothing": _silent_connections,
        "300 MB before login": _large_message_before_login,
        "10 readers that do not read": _slow_readers,
    }


def run(report: Report, server: Server) -> None:
    """All ways, one after another."""
    server.psql("-q", "-v", "ON_ERROR_STOP=1", sql=_SETUP)
    report.heading("SELECT 1 and look-ups of others; other: the same look-ups in a quiet time just before")
    for name, act in _ways().items():
        with _asking(server) as quiet:
            time.sleep(_SECONDS)
        with _asking(server) as taken:
            act(server)
        report.add(Figure(f"{name}, slowest SELECT 1", max(taken[0]) * 1e3, None, "ms", ours_max=50))
        ours, other = (statistics.median(each[1]) * 1e3 for each in (taken, quiet))
        report.add(Figure(f"{name}, look-up", ours, other, "ms", ratio_max=2.0))
