"""Compaction: how fast rows are written anew, and what a scan takes before and after, of a table in many files."""

from __future__ import annotations

import time

import psycopg

from tests.servers import Server

# Rows of lineitem go into so many files; of each order the first is deleted, which is every fourth row.
FILES = 40
_SCAN = "SELECT sum(l_extendedprice * l_discount), count(*) FROM scattered WHERE l_quantity < 24"


def scatter(server: Server) -> int:
    """Make the table `scattered`; how many rows it has."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE scattered AS SELECT * FROM lineitem WITH NO DATA")
        connection.execute(
            "ALTER TABLE scattered ADD CONSTRAINT scattered_order PRIMARY KEY (l_shipdate, l_orderkey, l_linenumber)"
        )
        for n in range(FILES):
            connection.execute("INSERT INTO scattered SELECT * FROM lineitem WHERE l_orderkey %% %s = %s", [FILES, n])
        connection.execute("DELETE FROM scattered WHERE l_linenumber = 1")
        row = connection.execute("SELECT count(*) FROM scattered").fetchone()
        assert row is not None
        return int(row[0])


def scan_seconds(server: Server, repeat: int) -> float:
    """The median of a scan, after one that warms up."""
    taken = []
    with psycopg.connect(server.url, autocommit=True) as connection:
        for _ in range(repeat + 1):
            begin = time.perf_counter()
            connection.execute(_SCAN).fetchall()
            taken.append(time.perf_counter() - begin)
    return sorted(taken[1:])[repeat // 2]


def vacuum_seconds(server: Server, statement: str) -> float:
    """How long a VACUUM takes."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        begin = time.perf_counter()
        connection.execute(statement.encode())
        return time.perf_counter() - begin
