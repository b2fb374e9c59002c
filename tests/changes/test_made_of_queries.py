"""CREATE TABLE AS and the like from changed tables in an open block: no other session waits for it."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess

_BEFORE = "ALTER TABLE t ADD COLUMN m integer DEFAULT 7"
_TABLES = {
    "as": "CREATE TABLE made AS SELECT id, m FROM t",
    "into": "SELECT id, m INTO made FROM t",
    "no data": "CREATE TABLE made AS SELECT id, m FROM t WITH NO DATA",
    "if not exists": "CREATE TABLE IF NOT EXISTS made (id, m) WITH (fillfactor = 70) AS SELECT id, m FROM t",
    "computed": "CREATE TABLE made AS SELECT id, m, to_json(t)::text AS j FROM t",
    "of no table": "CREATE TABLE made AS SELECT g AS id, 7 AS m FROM generate_series(1, 3) g",
}


def _nobody_waits(gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection) -> None:
    """Somebody else uses the table, at once, and changes another of its columns."""
    schema = other.execute("SELECT current_schema()").fetchall()[0][0]
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("SET statement_timeout = '20s'")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)


@pytest.mark.turns
@pytest.mark.parametrize("before", [_BEFORE, None], ids=["beside a change", "alone"])
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("statement", _TABLES.values(), ids=_TABLES)
def test_a_table(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    prepare: bool,
    before: str | None,
) -> None:
    if before is None:
        other.execute(_BEFORE.encode())
    else:
        block.execute(before.encode())
    block.execute(statement.encode(), prepare=prepare)
    _nobody_waits(gateway_process, block, other)
    rows = [] if "NO DATA" in statement else [(1, 7), (2, 7), (3, 7)]
    assert block.execute("SELECT id, m FROM made ORDER BY id").fetchall() == rows
    block.execute("INSERT INTO made (id) SELECT m FROM t WHERE id = 1")
    block.execute("ALTER TABLE made ADD COLUMN more text DEFAULT 'x'")
    _nobody_waits(gateway_process, block, other)
    block.commit()
    assert other.execute("SELECT id, m, more FROM made ORDER BY id").fetchall() == [
        *((*row, "x") for row in rows),
        (7, None, "x"),
    ]


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_a_temporary_table(
    gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection, prepare: bool
) -> None:
    block.execute(_BEFORE.encode())
    block.execute("CREATE TEMPORARY TABLE made AS SELECT id, m FROM t", prepare=prepare)
    _nobody_waits(gateway_process, block, other)
    joined = "SELECT id, made.m + t.m FROM made JOIN t USING (id) ORDER BY id"
    assert block.execute(joined.encode()).fetchall() == [(1, 14), (2, 14), (3, 14)]
    _nobody_waits(gateway_process, block, other)
    block.commit()
    assert block.execute(joined.encode()).fetchall() == [(1, 14), (2, 14), (3, 14)]


def test_others_change_the_table_beside_it(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """What the block has read to make its own, it has merely read."""
    block.execute("CREATE TABLE made AS SELECT id, n FROM t")
    other.execute("ALTER TABLE t ADD COLUMN m integer")
    block.commit()
    block.execute("CREATE TABLE again AS SELECT id, n FROM t")
    other.execute("ALTER TABLE t DROP COLUMN n")
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute("SELECT to_regclass('again') IS NULL, count(*) FROM made").fetchall() == [(True, 3)]


def test_a_table_in_the_place_of_another(
    gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection, schema: str
) -> None:
    """Others have that of before until the block commits."""
    rows = "SELECT * FROM t ORDER BY id"
    before = other.execute(rows.encode()).fetchall()
    block.execute("ALTER TABLE t RENAME TO t_before")
    block.execute("CREATE TABLE t AS SELECT id, 5 AS five FROM t_before")
    block.execute("INSERT INTO t VALUES (4, 4)")
    for _ in range(2):
        assert block.execute(rows.encode()).fetchall() == [(1, 5), (2, 5), (3, 5), (4, 4)]
        assert not locks(gateway_process, block, f"{schema}.t")
        assert other.execute(rows.encode()).fetchall() == before
    other.execute("UPDATE t SET n = 11 WHERE id = 1")
    block.execute("DROP TABLE t_before")
    assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute(rows.encode()).fetchall() == [(1, 5), (2, 5), (3, 5), (4, 4)]
    question = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    assert other.execute(question.encode()).fetchall() == [("t",)]


def test_a_name_that_others_take_meanwhile(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute(_BEFORE.encode())
    other.execute("CREATE TABLE made (id integer)")
    with pytest.raises(psycopg.errors.DuplicateTable):
        block.execute("CREATE TABLE made AS SELECT m FROM t")
    block.rollback()


@pytest.mark.turns
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW made AS SELECT id, n FROM t",
        "CREATE MATERIALIZED VIEW made AS SELECT id, n FROM t WITH NO DATA",
        "REFRESH MATERIALIZED VIEW seen",
        "REFRESH MATERIALIZED VIEW seen WITH NO DATA",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY seen",
    ],
)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_a_materialized_view(
    gateway_process: GatewayProcess,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    prepare: bool,
) -> None:
    other.execute("CREATE MATERIALIZED VIEW seen AS SELECT id, n FROM t")
    other.execute("CREATE UNIQUE INDEX ON seen (id)")
    block.execute(_BEFORE.encode())
    block.execute("UPDATE t SET n = n + m WHERE id = 3")
    block.execute(statement.encode(), prepare=prepare)
    _nobody_waits(gateway_process, block, other)
    assert other.execute("SELECT n FROM seen ORDER BY id").fetchall() == [(10,), (20,), (30,)]
    view = "made" if "CREATE" in statement else "seen"
    question = f"SELECT n FROM {view} ORDER BY id"
    for _ in range(2):
        if "NO DATA" in statement:
            block.execute("SAVEPOINT here")
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                block.execute(question.encode())
            block.execute("ROLLBACK TO here")
        else:
            assert block.execute(question.encode()).fetchall() == [(10,), (20,), (37,)]
        _nobody_waits(gateway_process, block, other)
    block.commit()
    other.execute(f"REFRESH MATERIALIZED VIEW {view}".encode())
    assert other.execute(question.encode()).fetchall() == [(13,), (20,), (37,)]


def test_nobody_waits_for_who_waits_for_a_refresh(
    gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection, schema: str
) -> None:
    other.execute("CREATE MATERIALIZED VIEW seen AS SELECT id, n FROM t")
    url, options = gateway_process.server.url, f"-csearch_path={schema}"
    with psycopg.connect(url, options=options) as refreshing:
        refreshing.execute("REFRESH MATERIALIZED VIEW seen")
        block.execute(_BEFORE.encode())
        waiting = threading.Thread(target=block.execute, args=(b"REFRESH MATERIALIZED VIEW seen",))
        waiting.start()
        for _ in range(3):
            time.sleep(0.3)
            assert waiting.is_alive()
            _nobody_waits(gateway_process, block, other)
        refreshing.commit()
    waiting.join(60)
    assert not waiting.is_alive()
    _nobody_waits(gateway_process, block, other)
    block.commit()
