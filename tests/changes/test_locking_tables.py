"""LOCK TABLE in a block with deferred schema changes: others wait for that lock alone, in the mode asked for."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_others_wait_for_the_lock_alone(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, prepare: bool
) -> None:
    other.execute("CREATE TABLE u (n integer)")
    other.execute("SET lock_timeout = '1s'")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
    block.execute("CREATE TABLE own (n integer)")
    block.execute("ALTER TABLE t RENAME TO s")
    block.execute("SAVEPOINT here")
    block.execute("LOCK TABLE s, own IN SHARE MODE", prepare=prepare)
    assert locks(gateway_process, block, f"{schema}.t") == ["ShareLock"]
    assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute("INSERT INTO u VALUES (1)")
    block.execute("UPDATE s SET m = 8 WHERE id = 1")
    block.execute("ROLLBACK TO here")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.execute("LOCK TABLE u", prepare=prepare)
    assert locks(gateway_process, block, f"{schema}.u") == ["AccessExclusiveLock"]
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("INSERT INTO t VALUES (5, 50, 'e')")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("SELECT FROM u")
    block.commit()
    assert other.execute("SELECT id, m FROM s ORDER BY id").fetchall() == [(number, 7) for number in range(1, 6)]
    assert other.execute("SELECT n FROM u").fetchall() == [(1,)]


def test_it_waits_for_who_has_used_the_table(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
    other.execute("BEGIN")
    other.execute("UPDATE t SET n = 11 WHERE id = 1")
    with pytest.raises(psycopg.errors.LockNotAvailable, match='could not obtain lock on relation "t"'):  # noqa: SIM117
        with block.transaction():
            block.execute("LOCK TABLE t IN SHARE MODE NOWAIT")
    block.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE NOWAIT")
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("COMMIT")
    block.execute("LOCK TABLE t IN EXCLUSIVE MODE NOWAIT")
    assert block.execute("SELECT n, m FROM t WHERE id = 1").fetchone() == (11, 7)
    assert locks(gateway_process, block, f"{schema}.t") == ["ExclusiveLock"]
    block.commit()


def test_who_may_not_does_not_wait(block: psycopg.Connection, other: psycopg.Connection, schema: str) -> None:
    """The privileges are those of the block."""
    other.execute("CREATE ROLE locker")
    other.execute("GRANT locker TO CURRENT_USER")
    try:
        block.execute(f"GRANT USAGE ON SCHEMA {schema} TO locker".encode())
        block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
        block.execute("GRANT INSERT ON t TO locker")
        block.execute("SET LOCAL ROLE locker")
        block.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), block.transaction():
            block.execute("LOCK TABLE t IN SHARE MODE")
        block.execute("RESET ROLE")
        block.rollback()
    finally:
        other.execute("DROP ROLE locker")
