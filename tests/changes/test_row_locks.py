"""Locks of rows and keys in a block with schema changes: no session waits for a waiting block, and no gap opens."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.servers import GatewayProcess

_STATEMENTS = {
    "update": ("UPDATE t SET n = n + 1 WHERE id = 1", "UPDATE t SET n = n + 1 WHERE id = 1"),
    "delete": ("UPDATE t SET n = n + 1 WHERE id = 1", "DELETE FROM t WHERE id = 1"),
    "for update": ("UPDATE t SET n = n + 1 WHERE id = 1", "SELECT n FROM t WHERE id = 1 FOR UPDATE"),
    "merge": (
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "MERGE INTO t USING (VALUES (1)) AS s (id) ON s.id = t.id WHEN MATCHED THEN UPDATE SET n = t.n + 1",
    ),
    "key": ("INSERT INTO t VALUES (4, 40, 'd')", "INSERT INTO t VALUES (4, 41, 'e') ON CONFLICT DO NOTHING"),
    "new key": ("INSERT INTO t VALUES (4, 40, 'd')", "INSERT INTO t (id, n) VALUES (4, 41)"),
    "reference": ("DELETE FROM t WHERE id = 1", "INSERT INTO child VALUES (1)"),
}


def _start(connection: psycopg.Connection, statement: str, errors: list[str | None]) -> threading.Thread:
    def carry_out() -> None:
        try:
            connection.execute(statement.encode())
        except psycopg.Error as error:
            errors.append(error.sqlstate)

    thread = threading.Thread(target=carry_out)
    thread.start()
    return thread


@pytest.mark.turns
@pytest.mark.parametrize("kind", _STATEMENTS)
def test_nobody_waits_for_a_block_that_waits(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, kind: str
) -> None:
    held, waiting = _STATEMENTS[kind]
    other.execute("CREATE TABLE child (of_t integer REFERENCES t)")
    errors: list[str | None] = []
    with psycopg.connect(gateway_process.server.url, options=f"-csearch_path={schema}") as holder:
        holder.execute(held.encode())
        block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 0")
        thread = _start(block, waiting, errors)
        time.sleep(2)
        for _ in range(3):
            assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
            other.execute("UPDATE t SET n = n + 1 WHERE id = 2")
            assert thread.is_alive(), "it does not wait for the row"
        holder.rollback()
        thread.join(60)
    assert not thread.is_alive()
    assert errors == []
    block.commit()
    assert other.execute("SELECT n FROM t WHERE id = 2").fetchone() == (23,)


@pytest.mark.turns
@pytest.mark.parametrize("kind", ["update", "delete", "for update", "merge"])
def test_who_comes_later_waits_for_the_end(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, kind: str
) -> None:
    held, waiting = _STATEMENTS[kind]
    errors: list[str | None] = []
    with psycopg.connect(gateway_process.server.url, options=f"-csearch_path={schema}") as holder:
        holder.execute(held.encode())
        block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 0")
        first = _start(block, waiting, errors)
        time.sleep(2)
        second = _start(other, "UPDATE t SET n = n + 100 WHERE id = 1", errors)
        time.sleep(2)
        holder.commit()
        first.join(60)
    assert not first.is_alive()
    for _ in range(3):
        block.execute("SELECT m FROM t")
    assert second.is_alive(), "it has the row that the block has locked"
    block.commit()
    second.join(60)
    assert errors == []
    found = {"update": [(112,)], "merge": [(112,)], "delete": [], "for update": [(111,)]}
    assert other.execute("SELECT n FROM t WHERE id = 1").fetchall() == found[kind]
