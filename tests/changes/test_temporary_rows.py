"""Rows of temporary tables, changed in a block with deferred changes: no session waits for that."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess

_STATEMENTS = (
    "INSERT INTO passing (n, name) VALUES (7, 'x'), (8, upper('y'))",
    "INSERT INTO passing (n, day) SELECT n + 10, now() FROM passing WHERE id < 3",
    "UPDATE passing SET name = n || ' of ' || id RETURNING name",
    "DELETE FROM passing WHERE id IN (SELECT max(id) FROM passing)",
    "WITH gone AS (DELETE FROM passing RETURNING n) INSERT INTO other_one SELECT n FROM gone",
    "MERGE INTO passing p USING other_one o ON o.n = p.n WHEN MATCHED THEN UPDATE SET n = 0",
    "TRUNCATE passing, other_one RESTART IDENTITY",
    "DELETE FROM other_one",
)


@pytest.fixture
def block(block: psycopg.Connection) -> psycopg.Connection:
    """It has temporary tables, and is in a block with a deferred change."""
    block.execute("CREATE TEMP TABLE passing (id serial PRIMARY KEY, n integer CHECK (n < 1000), name text, day date)")
    block.execute("CREATE TEMP TABLE other_one (n integer)")
    block.execute("INSERT INTO passing (n) VALUES (1), (2), (3)")
    block.commit()
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
    return block


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_nobody_waits(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, prepare: bool
) -> None:
    for number, statement in enumerate(_STATEMENTS * 2, 1):
        block.execute(statement.encode(), prepare=prepare)
        assert not locks(gateway_process, block, f"{schema}.t"), statement
        other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        assert block.execute("SELECT n, m FROM t WHERE id = 1").fetchone() == (10 + number, 7)
    with block.cursor().copy("COPY passing (n, name) FROM STDIN") as copy:
        copy.write_row((5, "five"))
        other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        copy.write_row((6, "six"))
    with block.cursor().copy("COPY passing TO STDOUT") as copy:
        assert list(copy.rows()) == [("1", "5", "five", None), ("2", "6", "six", None)]
    assert not locks(gateway_process, block, f"{schema}.t")
    block.execute("SAVEPOINT here")
    block.execute("DELETE FROM passing", prepare=prepare)
    block.execute("ROLLBACK TO here")
    with pytest.raises(psycopg.errors.CheckViolation), block.transaction():
        block.execute("UPDATE passing SET n = 1000", prepare=prepare)
    assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert block.execute("SELECT n FROM passing ORDER BY id").fetchall() == [(5,), (6,)]
    assert other.execute("SELECT DISTINCT m FROM t").fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("change", "statement", "result"),
    [
        ("ALTER TABLE passing RENAME n TO o", "UPDATE passing SET o = 5 RETURNING o", [(5,), (5,), (5,)]),
        ("DROP TABLE other_one", "INSERT INTO passing (n) VALUES (4) RETURNING n", [(4,)]),
        ("ALTER SEQUENCE passing_id_seq RESTART 70", "INSERT INTO passing (n) VALUES (4) RETURNING id", [(70,)]),
        ("DROP VIEW looking", "INSERT INTO other_one SELECT count(to_regclass('looking')) RETURNING n", [(0,)]),
    ],
)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_it_means_what_the_block_has_made_of_it(  # noqa: PLR0917
    block: psycopg.Connection,
    other: psycopg.Connection,
    change: str,
    statement: str,
    result: list[tuple[int]],
    prepare: bool,
) -> None:
    other.execute("CREATE VIEW looking AS SELECT 1")
    block.execute(change.encode())
    assert block.execute(statement.encode(), prepare=prepare).fetchall() == result
    block.commit()


def test_a_constraint_of_its_domain(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """What was prepared before is judged when it is met again."""
    block.rollback()
    other.execute("CREATE DOMAIN size AS integer")
    block.execute("CREATE TEMP TABLE box (size size)")
    block.commit()
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 7")
    block.execute("INSERT INTO box VALUES (%s)", [100], prepare=True)
    block.execute("DELETE FROM box")
    block.execute("ALTER DOMAIN size ADD CHECK (VALUE < 10)")
    with pytest.raises(psycopg.errors.CheckViolation), block.transaction():
        block.execute("INSERT INTO box VALUES (%s)", [100], prepare=True)
    block.execute("INSERT INTO box VALUES (%s)", [9], prepare=True)
    assert block.execute("SELECT size::integer FROM box").fetchall() == [(9,)]
    block.rollback()
