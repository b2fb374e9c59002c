"""Table rewrites in an open block: others use the old files, and their changes are caught up."""

from __future__ import annotations

import threading
import time
from typing import Final

import psycopg
import pytest

from catalog.schema.synchronisation import Settings
from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.turns
@pytest.mark.parametrize(
    ("change", "column", "expected"),
    [
        ("ALTER n TYPE text USING 'n' || n", "n", ["n10", "n30", "n41", "new"]),
        ("ALTER n TYPE numeric(6, 1)", "n::text", ["10.0", "30.0", "41.0", "50.0"]),
        ("ALTER n TYPE smallint, ADD CHECK (n > 0)", "n", [10, 30, 41, 50]),
        ("ADD COLUMN u uuid DEFAULT gen_random_uuid()", "count(u) OVER ()", [4, 4, 4, 4]),
        ("ADD COLUMN at timestamptz NOT NULL DEFAULT clock_timestamp()", "at IS NOT NULL", [True] * 4),
    ],
)
def test_nobody_waits_while_files_are_written_anew(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    change: str,
    column: str,
    expected: list[object],
) -> None:
    table = f"{schema}.t"
    block.execute("UPDATE t SET name = 'A' WHERE id = 1")
    block.execute(f"ALTER TABLE t {change}".encode())
    assert not locks(gateway_process, block, table)
    block.execute("UPDATE t SET name = 'C' WHERE id = 3")
    other.execute("INSERT INTO t VALUES (4, 40, 'd'), (6, 60, 'f')")
    other.execute("UPDATE t SET n = 41 WHERE id = 4")
    other.execute("DELETE FROM t WHERE id IN (2, 6)")
    other.execute("VACUUM t")
    assert other.execute("SELECT id, n, name FROM t ORDER BY id").fetchall() == [
        (1, 10, "a"), (3, 30, "c"), (4, 41, "d"),
    ]  # fmt: skip
    block.execute("INSERT INTO t (id, n) VALUES (5, %s)", ["new" if "text" in change else 50])
    assert not locks(gateway_process, block, table)
    block.commit()
    rows = other.execute(f"SELECT {column} FROM t ORDER BY id".encode()).fetchall()
    assert [value for (value,) in rows] == expected
    assert other.execute("SELECT id, name FROM t ORDER BY id").fetchall() == [
        (1, "A"), (3, "C"), (4, "d"), (5, None),
    ]  # fmt: skip


_WRITING: Final = "ALTER TABLE t ALTER n TYPE smallint"
# What is deferred is carried out for good before it.
_SETTLING = "DO 'BEGIN END'"


@pytest.mark.turns
@pytest.mark.parametrize(
    ("own", "theirs", "expected"),
    [
        ("UPDATE t SET name = 'A' WHERE id = 1", "UPDATE t SET n = 11 WHERE id = 1", "40001"),
        ("DELETE FROM t WHERE id = 1", "DELETE FROM t", "40001"),
        ("SELECT FROM t", "INSERT INTO t VALUES (4, 100000)", "22003"),
        ("SELECT FROM t", "DELETE FROM t", (0, None)),
        ("SELECT FROM t", "INSERT INTO t VALUES (4, 1); INSERT INTO t VALUES (5, 1)", (5, 62)),
        ("UPDATE t SET name = 'A' WHERE id = 1", "UPDATE t SET n = 11 WHERE id = 2", (3, 51)),
    ],
)
def test_what_others_do_meanwhile_is_kept_or_refused(
    block: psycopg.Connection, other: psycopg.Connection, own: str, theirs: str, expected: object
) -> None:
    block.execute(_WRITING)
    block.execute(own.encode())
    other.execute(theirs.encode())
    if isinstance(expected, str):
        before = other.execute("SELECT * FROM t ORDER BY id").fetchall()
        with pytest.raises(psycopg.Error) as refused:
            block.commit()
        assert refused.value.sqlstate == expected
        assert other.execute("SELECT * FROM t ORDER BY id").fetchall() == before
        other.execute("INSERT INTO t VALUES (9, 90000)")
        return
    block.commit()
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        other.execute("INSERT INTO t VALUES (9, 90000)")
    assert other.execute("SELECT count(n), sum(n) FROM t").fetchone() == expected


def test_keys_that_others_add_while_files_are_written_anew(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute(_WRITING)
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.execute("INSERT INTO t VALUES (4, 44, 'D')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        block.commit()
    assert other.execute("SELECT name FROM t WHERE id = 4").fetchall() == [("d",)]


def test_references_that_others_add_while_files_are_written_anew(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    other.execute("CREATE TABLE part (of_t integer REFERENCES t, weight integer)")
    other.execute("INSERT INTO part VALUES (1, 5)")
    block.execute("ALTER TABLE part ALTER weight TYPE numeric(8, 2)")
    block.execute("ALTER TABLE t ALTER n TYPE text")
    other.execute("INSERT INTO part VALUES (2, 6)")
    block.execute("INSERT INTO part VALUES (3, 7.5)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("DELETE FROM t WHERE id = 1")
    block.commit()
    assert other.execute("SELECT of_t, weight::text, n FROM part JOIN t ON id = of_t ORDER BY 1").fetchall() == [
        (1, "5.00", "10"), (2, "6.00", "20"), (3, "7.50", "30"),
    ]  # fmt: skip


def test_savepoints_around_files_that_are_written_anew(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("SAVEPOINT before")
    block.execute(_WRITING)
    block.execute("UPDATE t SET n = 1")
    block.execute("ROLLBACK TO before")
    assert block.execute("SELECT sum(n) FROM t").fetchone() == (60,)
    block.execute("ALTER TABLE t ALTER n TYPE text USING n || '!'")
    block.execute("SAVEPOINT inside")
    block.execute("UPDATE t SET n = 'gone'")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.execute("ROLLBACK TO inside")
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 3")
    block.execute("ALTER TABLE t DROP COLUMN name")
    block.execute("UPDATE t SET m = 4 WHERE id = 1")
    block.commit()
    assert other.execute("SELECT * FROM t ORDER BY id").fetchall() == [
        (1, "10!", 4), (2, "20!", 3), (3, "30!", 3), (4, "40!", 3),
    ]  # fmt: skip


def test_a_savepoint_takes_back_what_was_made_up_for(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute(_WRITING)
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.execute("SAVEPOINT before")
    block.execute(_SETTLING)
    block.execute("INSERT INTO t VALUES (5, 50, 'e')")
    assert block.execute("SELECT sum(n) FROM t").fetchone() == (150,)
    block.execute("ROLLBACK TO before")
    other.execute("DELETE FROM t WHERE id = 1")
    block.commit()
    assert other.execute("SELECT id, n FROM t ORDER BY 1").fetchall() == [(2, 20), (3, 30), (4, 40)]
    block.execute("ALTER TABLE t ALTER n TYPE text")
    other.execute("INSERT INTO t VALUES (5, 50, 'd')")
    block.execute(_SETTLING)
    block.execute("INSERT INTO t VALUES (6, 60, 'e')")
    block.execute("ALTER TABLE t ALTER n TYPE integer USING n::integer")
    block.commit()
    assert other.execute("SELECT sum(n) FROM t").fetchone() == (200,)


def test_files_that_are_written_anew_twice(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """What others do passes through both changes, also where the second was taken back and made again."""
    block.execute("ALTER TABLE t ALTER n TYPE text USING n || '!'")
    other.execute("INSERT INTO t VALUES (4, 40, 'd'), (5, 50, NULL)")
    block.execute("SAVEPOINT between")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation), block.transaction():
        block.execute("ALTER TABLE t ALTER name TYPE integer USING name::integer")
    block.execute("ALTER TABLE t ALTER name TYPE integer USING ascii(name)")
    block.execute("ROLLBACK TO between")
    block.execute("ALTER TABLE t ALTER name TYPE text USING name || n")
    block.execute("UPDATE t SET name = 'own' WHERE id = 1")
    other.execute("UPDATE t SET n = 21 WHERE id = 2")
    other.execute("DELETE FROM t WHERE id IN (3, 5)")
    assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()
    assert other.execute("SELECT id, n, name FROM t ORDER BY id").fetchall() == [
        (1, "10!", "own"), (2, "21!", "b21!"), (4, "40!", "d40!"),
    ]  # fmt: skip


def test_others_rows_are_checked_when_they_are_written_anew(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)")
    block.execute(_WRITING)
    block.execute("ALTER TABLE t ALTER name TYPE integer USING length(name)")
    other.execute("INSERT INTO t VALUES (4, -1, 'd')")
    with pytest.raises(psycopg.errors.CheckViolation):
        block.commit()
    block.rollback()
    assert other.execute("SELECT id, n, name FROM t ORDER BY id DESC LIMIT 1").fetchall() == [(4, -1, "d")]


def test_an_empty_table_that_others_fill(block: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute("CREATE TABLE bare (n integer)")
    block.execute("ALTER TABLE bare ALTER n TYPE text USING n || '!'")
    block.execute("INSERT INTO bare VALUES ('own')")
    assert block.execute("SELECT * FROM bare").fetchall() == [("own",)]
    other.execute("INSERT INTO bare VALUES (1)")
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute("SELECT * FROM bare").fetchall() == [(1,)]
    block.execute("ALTER TABLE bare ALTER n TYPE text USING n || '!'")
    block.commit()
    assert other.execute("SELECT * FROM bare").fetchall() == [("1!",)]


def test_rows_of_the_blocks_own_alone(block: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute("CREATE TABLE bare (n integer PRIMARY KEY)")
    block.execute("INSERT INTO bare VALUES (1), (2)")
    block.execute("ALTER TABLE bare ALTER n TYPE text USING n || '!'")
    block.execute("DELETE FROM bare WHERE n = '1!'")
    other.execute("INSERT INTO bare VALUES (3)")
    assert block.execute("SELECT * FROM bare").fetchall() == [("2!",)]
    block.commit()
    assert other.execute("SELECT * FROM bare ORDER BY n").fetchall() == [("2!",), ("3!",)]


def test_gateways_are_heard_while_rows_are_published(
    gateway_process: GatewayProcess, schema: str, other: psycopg.Connection
) -> None:
    """COMMIT of a change that comes with many files takes its time, which is nobody's lease."""
    other.execute("CREATE TABLE slow (n integer)")
    with (
        psycopg.connect(gateway_process.catalog_url) as catalog,
        psycopg.connect(gateway_process.server.url, options=f"-csearch_path={schema}") as connection,
    ):
        connection.execute("ALTER TABLE slow ADD COLUMN m integer")
        connection.execute("INSERT INTO slow VALUES (1, 2)")
        catalog.execute("LOCK TABLE pg_sluice.data_file IN SHARE MODE")  # nobody adds any
        committing = threading.Thread(target=connection.commit)
        committing.start()
        deadline = time.monotonic() + 3 * Settings().delay
        while time.monotonic() < deadline:
            other.execute("SELECT 1")
            time.sleep(0.1)
        assert committing.is_alive()
        catalog.rollback()
        committing.join(60)
    assert other.execute("SELECT n, m FROM slow").fetchall() == [(1, 2)]


def test_small_files_become_one(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """Those that are there, and those that come meanwhile, through two changes: each row keeps what is its own, though
    others take some of each away before, in between and after."""

    def rows(connection: psycopg.Connection) -> list[tuple[object, ...]]:
        return connection.execute("SELECT id, n, name FROM t ORDER BY id").fetchall()

    def files() -> int:
        [(count,)] = other.execute("SELECT files FROM pg_sluice.table_sizes WHERE relation = 't'::regclass").fetchall()
        return int(count)

    for number in range(10, 20):
        other.execute("INSERT INTO t VALUES (%s, %s, 'other')", [number, number * 10])
    other.execute("DELETE FROM t WHERE id IN (2, 12)")
    block.execute("ALTER TABLE t ALTER n TYPE text USING 'n' || n")
    other.execute("DELETE FROM t WHERE id IN (3, 13)")
    block.execute("UPDATE t SET name = 'own' WHERE id = 14")
    block.execute("ALTER TABLE t ALTER name TYPE integer USING length(name)")
    for number in range(20, 30):
        other.execute("INSERT INTO t VALUES (%s, %s, 'later')", [number, number * 10])
    other.execute("DELETE FROM t WHERE id IN (15, 22, 29)")
    block.execute("DELETE FROM t WHERE id = 16")
    before = files()
    block.commit()
    left = [
        (10, 5),
        (11, 5),
        (14, 3),
        (17, 5),
        (18, 5),
        (19, 5),
        *((id_, 5) for id_ in range(20, 30) if id_ not in {22, 29}),
    ]
    assert rows(other) == [(1, "n10", 1), *((id_, f"n{id_ * 10}", length) for id_, length in left)]
    assert files() <= 4 < before


@pytest.mark.usefixtures("block")
def test_small_files_become_one_at_once(other: psycopg.Connection) -> None:
    for number in range(10, 20):
        other.execute("INSERT INTO t VALUES (%s, %s, 'other')", [number, number * 10])
    other.execute("DELETE FROM t WHERE id IN (2, 12)")
    other.execute(
        "ALTER TABLE t ALTER n TYPE text USING 'n' || n, ADD COLUMN place integer GENERATED ALWAYS AS IDENTITY"
    )
    expected = [(id_, f"n{id_ * 10}") for id_ in (1, 3, 10, 11, *range(13, 20))]
    assert other.execute("SELECT id, n FROM t ORDER BY id").fetchall() == expected
    assert other.execute("SELECT id, n FROM t ORDER BY place").fetchall() == expected
    assert other.execute("SELECT count(DISTINCT place), max(place) FROM t").fetchall() == [(11, 11)]
