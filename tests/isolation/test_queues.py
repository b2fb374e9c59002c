"""Queues whose sessions take jobs of several kinds at once: locking clauses in subqueries that depend on others."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.servers import Server

Connect = Callable[[], psycopg.Connection]
_TAKE = """
WITH taken AS (
    SELECT j.id FROM unnest('{a,b}'::text[]) k CROSS JOIN LATERAL (
        SELECT id FROM job WHERE kind = k AND worker IS NULL ORDER BY priority DESC, id LIMIT %(most)s
        FOR UPDATE SKIP LOCKED) j ORDER BY j.id LIMIT %(most)s),
claimed AS (UPDATE job SET worker = %(worker)s WHERE id IN (SELECT id FROM taken) RETURNING id),
logged AS (INSERT INTO log SELECT id, %(worker)s FROM claimed)
SELECT id FROM claimed ORDER BY id
"""
_LOOK = """
SELECT k, j.id FROM unnest('{{a,b}}'::text[]) k CROSS JOIN LATERAL (
    SELECT id FROM job WHERE kind = k ORDER BY id LIMIT 2 FOR UPDATE {}) j ORDER BY 1, 2
"""


@pytest.fixture
def connect(target: Server, target_schema: str) -> Connect:
    """Connects to a server with a queue of twelve jobs."""

    def connected() -> psycopg.Connection:
        return psycopg.connect(target.url, options=f"-c search_path={target_schema}")

    with connected() as client:
        client.execute("CREATE TABLE job (id int PRIMARY KEY, kind text, priority int, worker int)")
        client.execute("INSERT INTO job SELECT n, chr(97 + n % 2), n % 3 FROM generate_series(1, 12) n")
        client.execute("CREATE TABLE log (job int, worker int)")
    return connected


def take(client: psycopg.Connection, worker: int, most: int) -> list[int]:
    """The jobs that a worker takes."""
    with psycopg.ClientCursor(client) as cursor:
        cursor.execute(_TAKE, {"most": most, "worker": worker})
        return [number for (number,) in cursor.fetchall()]


def test_two_blocks_take_different_jobs(connect: Connect) -> None:
    with connect() as one, connect() as two:
        assert take(one, 1, 3) == [1, 2, 4]
        # Those that the first has locked without taking them are not free either: 5, 8 and so on.
        assert take(two, 2, 3) == [3, 6, 7]
        one.commit()
        two.rollback()
        assert take(two, 3, 30) == [3, 5, 6, 7, 8, 9, 10, 11, 12]
        two.commit()
        assert two.execute("SELECT worker, count(*) FROM log GROUP BY 1 ORDER BY 1").fetchall() == [(1, 3), (3, 9)]


def test_a_locked_job_is_skipped_awaited_or_refused(connect: Connect) -> None:
    with connect() as one, connect() as two:
        one.execute("SELECT FROM job WHERE id = 2 FOR UPDATE")
        look = _LOOK.format("SKIP LOCKED").encode()
        assert two.execute(look).fetchall() == [("a", 4), ("a", 6), ("b", 1), ("b", 3)]
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute(_LOOK.format("NOWAIT").encode())
        two.rollback()
        found: list[list[tuple[object, ...]]] = []
        thread = threading.Thread(target=lambda: found.append(two.execute(_LOOK.format("").encode()).fetchall()))
        thread.start()
        thread.join(0.7)
        assert thread.is_alive()
        one.commit()
        thread.join(30)
        assert found == [[("a", 2), ("a", 4), ("b", 1), ("b", 3)]]


def test_each_job_is_taken_once(connect: Connect) -> None:
    taken: list[int] = []

    def work(worker: int) -> None:
        with connect() as client:
            while True:
                found = take(client, worker, 2)
                client.commit()
                taken.extend(found)
                left = client.execute("SELECT count(*) FROM job WHERE worker IS NULL").fetchone()
                client.commit()
                if left == (0,):
                    return

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, 13))
