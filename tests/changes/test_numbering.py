"""Columns numbered by sequences in an open block: no other session waits, and each number is given out once."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.parametrize(
    ("change", "first", "step"),
    [
        ("ADD COLUMN m serial", 1, 1),
        ("ADD COLUMN m bigint GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 5)", 10, 5),
        ("ADD COLUMN m bigint DEFAULT nextval('beside')", 1, 1),
        ("ADD COLUMN m text DEFAULT nextval('beside')", 1, 1),
    ],
)
def test_each_number_is_given_out_once(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    change: str,
    first: int,
    step: int,
) -> None:
    table = f"{schema}.t"
    other.execute("CREATE SEQUENCE beside")
    block.execute(f"ALTER TABLE t {change}".encode())
    assert not locks(gateway_process, block, table)
    other.execute("INSERT INTO t VALUES (4, 40, 'd'), (5, 50, 'e')")
    block.execute("INSERT INTO t (id) VALUES (11)")
    block.execute("SAVEPOINT here")
    block.execute("INSERT INTO t (id) SELECT id + 20 FROM t WHERE id IN (1, 2)")
    assert not locks(gateway_process, block, table)
    block.execute("ROLLBACK TO here")
    block.execute("INSERT INTO t (id) SELECT id + 20 FROM t WHERE id IN (1, 2)")
    other.execute("DELETE FROM t WHERE id = 5")
    other.execute("INSERT INTO t VALUES (6, 60, 'f')")
    block.execute("INSERT INTO t (id) VALUES (12)")
    assert not locks(gateway_process, block, table)
    block.commit()
    other.execute("INSERT INTO t (id) VALUES (13)")
    rows = other.execute("SELECT id, m::bigint FROM t ORDER BY m::bigint").fetchall()
    assert sorted(row[0] for row in rows) == [1, 2, 3, 4, 6, 11, 12, 13, 21, 22]
    numbers = [number for _, number in rows]
    assert rows[:4] == [(1, first), (2, first + step), (3, first + 2 * step), (11, first + 3 * step)]
    assert len(set(numbers)) == len(numbers)
    assert all((number - first) % step == 0 for number in numbers)
    assert rows[-1][0] == 13


def test_a_sequence_that_was_there_gives_none_twice(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """A wider type writes its sequence anew: that goes on beside others, until the block takes a number of it."""
    other.execute("CREATE TABLE u (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer)")
    other.execute("INSERT INTO u (n) VALUES (1), (2)")
    block.execute("ALTER TABLE u ALTER id TYPE bigint")
    assert not locks(gateway_process, block, f"{schema}.u")
    other.execute("INSERT INTO u (n) VALUES (3)")
    assert block.execute("SELECT id FROM u ORDER BY id").fetchall() == [(1,), (2,), (3,)]
    block.execute("UPDATE u SET n = n + 1")
    assert not locks(gateway_process, block, f"{schema}.u")
    assert block.execute("INSERT INTO u (n) VALUES (4) RETURNING id").fetchall() == [(4,)]
    assert block.execute("INSERT INTO u (n) VALUES (5) RETURNING id").fetchall() == [(5,)]
    block.commit()
    assert other.execute("INSERT INTO u (n) VALUES (6) RETURNING id").fetchall() == [(6,)]


def test_rows_added_while_the_last_are_numbered_run_out_of_numbers(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer GENERATED ALWAYS AS IDENTITY (MAXVALUE 4)")
    other.execute("INSERT INTO t VALUES (4, 40, 'd'), (5, 50, 'e')")
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded):
        block.commit()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (5,)


def test_a_block_of_many_statements(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """Each leaves a lock of a sequence behind that is gone: there is an end to that."""
    block.execute("ALTER TABLE t ADD COLUMN m serial")
    for number in range(520):
        block.execute("SELECT currval('t_m_seq')")
        if number < 480:
            assert number % 100 or not locks(gateway_process, block, f"{schema}.t")
    assert locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute("SELECT max(m) FROM t").fetchone() == (3,)
