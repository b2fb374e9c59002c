"""A schema change that waits for one session blocks no other session."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.servers import GatewayProcess

# What holds a lock on a table's shadow until its transaction ends.
_HOLDING = {
    "a view": "CREATE VIEW v AS SELECT n FROM t",
    "a cursor": "DECLARE c CURSOR FOR SELECT n FROM t",
    "a lock": "LOCK TABLE t IN ACCESS SHARE MODE",
}
_CHANGES = ["ALTER TABLE t ADD COLUMN m integer DEFAULT 7", "ALTER TABLE t RENAME COLUMN name TO title"]


@pytest.fixture
def holder(gateway_process: GatewayProcess, schema: str) -> Iterator[psycopg.Connection]:
    """A third session, in a block."""
    with psycopg.connect(gateway_process.server.url, options=f"-csearch_path={schema}") as connection:
        yield connection
        connection.rollback()


def _waits_alone(change: str, block: psycopg.Connection, holder: psycopg.Connection, other: psycopg.Connection) -> None:
    """The change waits until the holder commits, while others read the table and insert into it."""
    waiting = threading.Thread(target=block.execute, args=(change.encode(),))
    waiting.start()
    for number in range(4, 7):
        assert other.execute("SELECT count(*) FROM t").fetchone() == (number - 1,)
        other.execute("INSERT INTO t VALUES (%s, 1, 'x')", [number])
        assert waiting.is_alive()
    holder.commit()
    waiting.join(60)
    assert not waiting.is_alive()


@pytest.mark.turns
@pytest.mark.parametrize("in_block", [False, True], ids=["alone", "in a block"])
@pytest.mark.parametrize("change", _CHANGES, ids=["add", "rename"])
@pytest.mark.parametrize("holding", _HOLDING.values(), ids=_HOLDING)
def test_nobody_waits_behind_it(  # noqa: PLR0917
    holder: psycopg.Connection,
    block: psycopg.Connection,
    other: psycopg.Connection,
    holding: str,
    change: str,
    in_block: bool,
) -> None:
    holder.execute(holding.encode())
    block.autocommit = not in_block
    _waits_alone(change, block, holder, other)
    if in_block:
        block.commit()
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
    found = {str(name) for [name] in other.execute(columns)}
    assert found in ({"id", "n", "name", "m"}, {"id", "n", "title"})
    assert other.execute("SELECT count(*) FROM t").fetchone() == (6,)


def test_it_waits_as_long_as_lock_timeout(
    holder: psycopg.Connection, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    holder.execute("DECLARE c CURSOR FOR SELECT n FROM t")
    block.execute("SET lock_timeout = '500ms'")
    block.execute("SAVEPOINT here")
    with pytest.raises(psycopg.errors.LockNotAvailable, match="canceling statement due to lock timeout"):
        block.execute("ALTER TABLE t ADD COLUMN m integer")
    block.execute("ROLLBACK TO here")
    assert block.execute("SHOW lock_timeout").fetchone() == ("500ms",)
    holder.rollback()
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    assert block.execute("SHOW lock_timeout").fetchone() == ("500ms",)
    block.commit()
    assert other.execute("SELECT m FROM t WHERE id = 1").fetchone() == (None,)


def test_it_can_be_canceled(holder: psycopg.Connection, block: psycopg.Connection) -> None:
    """Again where it takes that: a cancel that comes before the statement has begun is not heard, as in PostgreSQL."""
    holder.execute("DECLARE c CURSOR FOR SELECT n FROM t")
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(1):
            block.cancel_safe()

    canceling = threading.Thread(target=cancel)
    canceling.start()
    try:
        with pytest.raises(psycopg.errors.QueryCanceled):
            block.execute("ALTER TABLE t ADD COLUMN m integer")
    finally:
        ended.set()
        canceling.join()


def test_who_waits_for_each_other_is_told(holder: psycopg.Connection, block: psycopg.Connection) -> None:
    """PostgreSQL looks for deadlocks among those who wait, which neither does for long."""
    block.execute("CREATE TABLE u (n integer)")
    block.commit()
    holder.execute("CREATE VIEW of_t AS SELECT n FROM t")
    block.execute("CREATE VIEW of_u AS SELECT n FROM u")
    errors: list[str | None] = []

    def change(connection: psycopg.Connection, table: str) -> None:
        try:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN m integer".encode())
        except psycopg.Error as error:
            errors.append(error.sqlstate)
        finally:
            connection.rollback()

    waiting = threading.Thread(target=change, args=(holder, "u"))
    waiting.start()
    change(block, "t")
    waiting.join(60)
    assert not waiting.is_alive()
    assert errors[:1] == ["40P01"]


@pytest.mark.parametrize("drop", ["DROP SCHEMA patience CASCADE", "DROP TYPE patience.mood CASCADE"])
def test_nobody_waits_behind_what_drops_a_table_that_it_does_not_name(
    holder: psycopg.Connection, block: psycopg.Connection, other: psycopg.Connection, drop: str
) -> None:
    other.execute("DROP SCHEMA IF EXISTS patience CASCADE")
    other.execute("CREATE SCHEMA patience")
    other.execute("CREATE DOMAIN patience.mood AS integer CHECK (value > 0)")
    other.execute("CREATE TABLE patience.t (id integer, n integer CHECK (n::patience.mood > 1))")
    holder.execute("DECLARE c CURSOR FOR SELECT n FROM patience.t")
    block.autocommit = True
    waiting = threading.Thread(target=block.execute, args=(drop.encode(),))
    waiting.start()
    for number in range(3):
        assert other.execute("SELECT count(*) FROM patience.t").fetchone() == (number,)
        other.execute("INSERT INTO patience.t (id) VALUES (1)")
        assert waiting.is_alive()
    holder.commit()
    waiting.join(60)
    assert not waiting.is_alive()
    other.execute("DROP SCHEMA IF EXISTS patience CASCADE")


@pytest.mark.parametrize("in_block", [False, True], ids=["alone", "in a block"])
def test_nobody_waits_behind_truncate(
    holder: psycopg.Connection, block: psycopg.Connection, other: psycopg.Connection, in_block: bool
) -> None:
    """In a block, it is for the locks of shadows that it waits by itself: for who uses the table, COMMIT does."""
    holder.execute("INSERT INTO t VALUES (100, 1, 'x')")
    block.autocommit = not in_block
    if in_block:
        block.execute("TRUNCATE t")
        block.rollback()
        holder.execute("LOCK TABLE t IN ACCESS SHARE MODE")
    _waits_alone("TRUNCATE t", block, holder, other)
    if in_block:
        block.commit()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)
    holder.execute("LOCK TABLE t IN ACCESS SHARE MODE")
    block.execute("SET lock_timeout = '300ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        block.execute("TRUNCATE t")
