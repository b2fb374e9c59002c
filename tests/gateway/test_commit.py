"""Commits of many sessions side by side: no session waits for a transaction that is merely open."""

from __future__ import annotations

import threading

import psycopg

from tests.servers import Server

_SESSIONS = 50
_COMMITS = 4


def test_fifty_sessions_commit_to_tables_of_their_own(gateway: Server) -> None:
    """All of them at once, while others have staged rows, and are about to commit them or not."""
    gateway.psql("-qc", "CREATE SCHEMA fifty")
    with psycopg.connect(gateway.url, options="-c search_path=fifty") as open_block:
        for number in range(_SESSIONS):
            open_block.execute(f"CREATE TABLE t{number} (n integer PRIMARY KEY)".encode())
        open_block.commit()
        open_block.execute("INSERT INTO t0 VALUES (-1)")
        together = threading.Barrier(_SESSIONS)
        faults: list[BaseException] = []

        def commit(number: int) -> None:
            try:
                with psycopg.connect(gateway.url, options="-c search_path=fifty") as connection:
                    for n in range(_COMMITS):
                        connection.execute(f"INSERT INTO t{number} VALUES ({n})".encode())
                        if n == 0:
                            together.wait(60)  # everybody has staged something, and nobody has committed
                        connection.commit()
            except BaseException as fault:
                faults.append(fault)
                raise

        threads = [threading.Thread(target=commit, args=(number,)) for number in range(_SESSIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        open_block.rollback()
        for number in (0, 1, _SESSIONS - 1):
            found = open_block.execute(f"SELECT n FROM t{number} ORDER BY n".encode()).fetchall()
            assert found == [(n,) for n in range(_COMMITS)]
    gateway.psql("-qc", "SET client_min_messages = warning; DROP SCHEMA fifty CASCADE")
