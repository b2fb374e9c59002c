"""Deferred schema changes in an open block: no other session waits for it or sees them before COMMIT."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess


@pytest.mark.turns
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD COLUMN m integer",
        "ALTER TABLE t ADD COLUMN m integer NOT NULL DEFAULT 7",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0)",
        "ALTER TABLE t ADD CONSTRAINT once UNIQUE (n)",
        "ALTER TABLE t ADD CONSTRAINT self FOREIGN KEY (id) REFERENCES t",
        "ALTER TABLE t ALTER n SET NOT NULL, ALTER n SET DEFAULT 5",
        "ALTER TABLE t ALTER n TYPE bigint",
        "ALTER TABLE t DROP COLUMN name",
        "CREATE INDEX by_n ON t (n)",
        "CREATE UNIQUE INDEX by_n ON t (n) WHERE id > 0",
        "ALTER TABLE t RENAME COLUMN name TO title",
        "ALTER TABLE t RENAME CONSTRAINT t_pkey TO t_key",
    ],
)
def test_nobody_waits_for_it(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, change: str
) -> None:
    table = f"{schema}.t"
    block.execute(change.encode())
    assert not locks(gateway_process, block, table)
    assert other.execute("SELECT id, n, name FROM t ORDER BY id").fetchall() == [
        (1, 10, "a"),
        (2, 20, "b"),
        (3, 30, "c"),
    ]
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute("UPDATE t SET n = 41 WHERE id = 4")
    assert block.execute("SELECT sum(n) FROM t").fetchone() == (101,)
    block.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    block.execute("INSERT INTO t (id, n) VALUES (5, 50)")
    assert not locks(gateway_process, block, table)
    other.execute("DELETE FROM t WHERE id = 2")
    assert other.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (3,), (4,)]
    block.commit()
    assert other.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(1, 11), (3, 30), (4, 41), (5, 50)]


def test_nobody_waits_for_a_table_that_goes(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t RENAME TO u")
    assert not locks(gateway_process, block, f"{schema}.t")
    assert block.execute("SELECT count(*) FROM u").fetchone() == (3,)
    assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
    block.execute("DROP TABLE u")
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    with pytest.raises(psycopg.errors.UndefinedTable):
        block.execute("SELECT FROM u")
    block.rollback()
    block.execute("DROP TABLE t")
    other.execute("INSERT INTO t VALUES (5, 50, 'e')")
    block.commit()
    with pytest.raises(psycopg.errors.UndefinedTable):
        other.execute("SELECT FROM t")


def test_others_see_it_with_the_rows_at_commit(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 1")
    block.execute("UPDATE t SET m = id * 2")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        other.execute("SELECT m FROM t")
    block.commit()
    assert other.execute("SELECT m FROM t ORDER BY id").fetchall() == [(2,), (4,), (6,)]


@pytest.mark.parametrize("number", [30, 40], ids=["of one that was there", "of one of the block's"])
def test_rows_that_others_add_are_looked_at_at_commit(
    block: psycopg.Connection, other: psycopg.Connection, number: int
) -> None:
    block.execute("ALTER TABLE t ADD CONSTRAINT once UNIQUE (n)")
    block.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute(f"INSERT INTO t VALUES (5, {number}, 'e')".encode())
    with pytest.raises(psycopg.errors.UniqueViolation) as violated:
        block.commit()
    assert violated.value.diag.message_detail == f"Key (n)=({number}) already exists."
    assert other.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,), (3,), (5,)]
    named_once = "SELECT FROM pg_constraint WHERE conname = 'once' AND conrelid = 't'::regclass"
    assert other.execute(named_once).fetchall() == []
    other.execute("INSERT INTO t VALUES (6, 30, 'f')")


def test_a_constraint_of_the_same_name_is_another(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)")
    block.execute("ALTER TABLE t DROP CONSTRAINT c")
    with pytest.raises(psycopg.errors.CheckViolation), block.transaction():
        block.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 15)")
    block.execute("ALTER TABLE t DROP COLUMN n")
    block.execute("ALTER TABLE t ADD COLUMN n integer DEFAULT -1")
    with pytest.raises(psycopg.errors.CheckViolation), block.transaction():
        block.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)")
    block.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (n < 0)")
    block.commit()
    with pytest.raises(psycopg.errors.CheckViolation):
        other.execute("INSERT INTO t VALUES (4, 'd', 1)")


def test_a_constraint_by_another_name_is_the_same(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("ALTER TABLE t ADD CONSTRAINT once UNIQUE (n)")
    block.execute("ALTER TABLE t RENAME CONSTRAINT once TO ever")
    other.execute("INSERT INTO t VALUES (4, 30, 'd')")
    with pytest.raises(psycopg.errors.UniqueViolation, match='"ever"'):
        block.commit()
    block.execute("ALTER TABLE t ADD CONSTRAINT once UNIQUE (n, id)")
    block.execute("ALTER TABLE t RENAME CONSTRAINT once TO ever")
    block.commit()
    named = "SELECT conname FROM pg_constraint WHERE conname IN ('once', 'ever') AND conrelid = 't'::regclass"
    assert other.execute(named).fetchall() == [("ever",)]


def test_a_new_table_is_made_beside_what_is_deferred(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    block.execute("CREATE TABLE made (id serial PRIMARY KEY, of_t integer)")
    block.execute("INSERT INTO made (of_t) VALUES (1), (2)")
    block.execute("ALTER TABLE t ADD CONSTRAINT made_of FOREIGN KEY (m) REFERENCES made")
    block.execute("UPDATE t SET m = 2 WHERE id = 1")
    assert not locks(gateway_process, block, f"{schema}.t")
    assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("UPDATE t SET m = 3 WHERE id = 1")
    block.commit()
    assert other.execute("SELECT t.id, of_t FROM t JOIN made ON made.id = m").fetchall() == [(1, 2)]


@pytest.mark.parametrize("change", ["ADD COLUMN m text", "DROP COLUMN name", "ADD CHECK (n > 0)"])
def test_who_changes_the_table_first_dooms_the_other(
    block: psycopg.Connection, other: psycopg.Connection, change: str
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    other.execute(f"ALTER TABLE t {change}".encode())
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.execute("SELECT * FROM t")
    block.rollback()
    block.execute("ALTER TABLE t ADD COLUMN o integer")
    block.commit()
    assert other.execute("SELECT count(o) FROM t").fetchone() == (0,)


def test_it_is_refused_at_commit_where_it_was_not_met_before(
    block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    other.execute("ALTER TABLE t ADD COLUMN o integer")
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute("SELECT * FROM t WHERE id = 1").fetchall() == [(1, 10, "a", None)]


def test_an_error_gives_the_locks_back(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    for wrong in ("SELECT 1 / (n - n) FROM t", "SELECT nope FROM t", "ALTER TABLE t ADD COLUMN m integer"):
        block.execute("SAVEPOINT here")
        with pytest.raises(psycopg.Error):
            block.execute(wrong.encode())
        assert not locks(gateway_process, block, f"{schema}.t")
        assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
        block.execute("ROLLBACK TO here")
    block.execute("UPDATE t SET m = 1")
    block.commit()
    assert other.execute("SELECT sum(m) FROM t").fetchone() == (3,)


def test_rows_stay_locked(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """What a statement locks outlives the window that it ran in: an UPDATE of the same row waits, as ever."""
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 0")
    block.execute("UPDATE t SET m = 5 WHERE id = 1")
    done: list[int] = []

    def update() -> None:
        done.append(other.execute("UPDATE t SET n = 11 WHERE id = 1").rowcount)

    waiting = threading.Thread(target=update)
    waiting.start()
    waiting.join(2)
    assert waiting.is_alive(), "it does not wait for the row"
    block.rollback()
    waiting.join(60)
    assert done == [1]


def test_pipelines(block: psycopg.Connection, other: psycopg.Connection) -> None:
    with block.pipeline():
        block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 3")
        rows = block.execute("SELECT id, m FROM t WHERE id < %s ORDER BY id", [3])
        block.execute("SAVEPOINT here")
        block.execute("INSERT INTO t VALUES (%s, 1, 'x', 9)", [7])
        block.execute("ROLLBACK TO here")
        block.execute("INSERT INTO t VALUES (%s, 1, 'y', 9)", [8])
        columns = block.execute("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = 4")
        assert rows.fetchall() == [(1, 3), (2, 3)]
        assert columns.fetchall() == [("m",)]
        assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
    block.commit()
    assert other.execute("SELECT id, m FROM t WHERE m = 9").fetchall() == [(8, 9)]


@pytest.mark.parametrize("prepare", [False, True])
def test_the_extended_protocol_asks_postgresql_too(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, prepare: bool
) -> None:
    """Statements that touch no lake table, one to a Sync: what PostgreSQL says comes after the Sync."""
    name = "SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum = %s"
    block.execute("ALTER TABLE t ADD COLUMN m integer")
    for _ in range(3):
        assert block.execute(name, [4], prepare=prepare).fetchall() == [("m",)]
        assert not locks(gateway_process, block, f"{schema}.t")
    for divisor in (1, 0):
        block.execute("SAVEPOINT here")
        try:
            assert block.execute("SELECT 4 / %s::integer", [divisor], prepare=prepare).fetchall() == [(4,)]
        except psycopg.errors.DivisionByZero:
            assert not divisor
            assert not locks(gateway_process, block, f"{schema}.t")
            block.execute("ROLLBACK TO here")
    assert block.execute(name, [4], prepare=prepare).fetchall() == [("m",)]
    block.commit()
    assert block.execute("SELECT m FROM t").fetchall() == [(None,)] * 3


@pytest.mark.turns
@pytest.mark.parametrize("look", [True, False], ids=["at the next statement", "at COMMIT"])
@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ("ALTER TABLE t RENAME CONSTRAINT t_pkey TO k", "ALTER TABLE t ADD CONSTRAINT k CHECK (n > 0)"),
        ("ALTER TABLE t RENAME TO u", "CREATE TABLE u (n integer)"),
        ("CREATE INDEX by_n ON t (n)", "CREATE TABLE by_n (n integer)"),
        ("ALTER TABLE s RENAME CONSTRAINT s_n_check TO k", "ALTER TABLE s RENAME CONSTRAINT s_m_check TO k"),
    ],
)
def test_whoever_takes_a_name_first_has_it(
    block: psycopg.Connection, other: psycopg.Connection, change: str, taken: str, look: bool
) -> None:
    other.execute("CREATE TABLE s (n integer CHECK (n > 0), m integer CHECK (m > 0))")
    block.execute(change.encode())
    other.execute(taken.encode())
    with pytest.raises(psycopg.errors.SerializationFailure):  # noqa: PT012  whichever of the two
        if look:
            block.execute("SELECT relname FROM pg_class WHERE relname = 'u'")
        block.commit()
    block.rollback()
    assert block.execute("SELECT count(*) FROM t").fetchone() == (3,)


_REFERRING = [
    ("CREATE TABLE made (id integer PRIMARY KEY, of_t integer NOT NULL REFERENCES t, up integer REFERENCES made)",),
    (
        "CREATE TABLE made (id integer PRIMARY KEY, of_t integer NOT NULL, up integer)",
        (
            "ALTER TABLE made ADD FOREIGN KEY (of_t) REFERENCES t DEFERRABLE INITIALLY DEFERRED,"
            " ADD FOREIGN KEY (up) REFERENCES made"
        ),
    ),
]


@pytest.mark.parametrize("changes", _REFERRING, ids=["as it is made", "as it is altered"])
def test_nobody_waits_for_a_table_that_refers_to_another(
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    changes: tuple[str, ...],
) -> None:
    for change in changes:
        block.execute(change.encode())
    block.execute("CREATE INDEX made_of_t ON made (of_t)")
    block.execute("ALTER TABLE made ADD CHECK (id > 0), ADD COLUMN note text DEFAULT 'none'")
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute("DELETE FROM t WHERE id = 1")
    block.execute("INSERT INTO made VALUES (1, 2, NULL), (2, 3, 1)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("INSERT INTO made VALUES (3, 4, 9)")
    names = block.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'made'::regclass AND contype <> 't'"
    ).fetchall()
    assert sorted(name for (name,) in names) == [
        "made_id_check",
        "made_id_not_null",
        "made_of_t_fkey",
        "made_of_t_not_null",
        "made_pkey",
        "made_up_fkey",
    ]
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("UPDATE t SET n = 31 WHERE id = 3")
    block.execute("INSERT INTO made VALUES (4, 4, 2)")
    block.commit()
    assert other.execute("SELECT id, of_t, up, note FROM made ORDER BY id").fetchall() == [
        (1, 2, None, "none"),
        (2, 3, 1, "none"),
        (4, 4, 2, "none"),
    ]
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        other.execute("DELETE FROM t WHERE id = 2")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        other.execute("INSERT INTO made VALUES (5, 1)")


_CONSTRAINT = "SELECT oid FROM pg_constraint WHERE conname = 'made_key'"


def test_a_reference_between_two_new_tables_is_made_once(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """Frameworks make all their tables in one block, and then all references: none is carried out again and again."""
    block.execute("CREATE TABLE first (id integer PRIMARY KEY)")
    block.execute("CREATE TABLE second (id integer PRIMARY KEY, first integer)")
    block.execute("ALTER TABLE second ADD CONSTRAINT made_key FOREIGN KEY (first) REFERENCES first DEFERRABLE")
    made = block.execute(_CONSTRAINT).fetchone()
    block.execute("CREATE INDEX second_first ON second (first)")
    block.execute("ALTER TABLE second ADD COLUMN third integer REFERENCES second")
    assert block.execute(_CONSTRAINT).fetchone() == made
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("INSERT INTO second VALUES (1, 1)")
    with pytest.raises(psycopg.errors.UndefinedTable), block.transaction():
        block.execute("ALTER TABLE second ADD FOREIGN KEY (first) REFERENCES missing")
    block.execute("INSERT INTO first VALUES (1)")
    block.execute("INSERT INTO second VALUES (1, 1, NULL), (2, 1, 1)")
    block.commit()
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        other.execute("DELETE FROM first")


_READ = "SELECT sum(pg_stat_get_xact_tuples_returned(c::regclass)) FROM unnest('{pg_constraint,pg_depend}'::text[]) c"


def test_a_new_table_does_not_read_the_catalogs_of_all_others(block: psycopg.Connection) -> None:
    """With each table of a long block all that came before would be read again."""

    def read_by(name: str) -> int:
        [before] = block.execute(_READ).fetchone() or (0,)
        block.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, up integer CHECK (up > 0), n text)".encode())
        block.execute(f"ALTER TABLE {name} ADD FOREIGN KEY (up) REFERENCES {name} DEFERRABLE".encode())
        block.execute(f"CREATE UNIQUE INDEX ON {name} (up)".encode())
        [after] = block.execute(_READ).fetchone() or (0,)
        return int(after - before)

    read_by("warm")
    few = read_by("early")
    for number in range(20):
        block.execute(f"CREATE TABLE other_{number} (id integer PRIMARY KEY, n integer UNIQUE CHECK (n > 0))".encode())
    assert read_by("late") <= few + 5


_MADE = "SELECT pg_stat_get_xact_tuples_inserted('pg_constraint'::regclass)"


@pytest.mark.turns
def test_many_changes_are_not_carried_out_again_for_ever(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """Frameworks make all their tables in one block, and then their references, also to older ones."""
    tables = range(52)
    block.execute("; ".join(f"CREATE TABLE made_{each} (id integer, of_t integer)" for each in tables).encode())
    for each in tables[:10]:
        block.execute(f"ALTER TABLE made_{each} ADD FOREIGN KEY (of_t) REFERENCES t".encode())
    assert not locks(gateway_process, block, f"{schema}.t")
    for each in tables[10:48]:
        block.execute(f"ALTER TABLE made_{each} ADD FOREIGN KEY (of_t) REFERENCES t".encode())
    [before] = block.execute(_MADE).fetchone() or (0,)
    for each in tables[48:]:
        block.execute(f"ALTER TABLE made_{each} ADD FOREIGN KEY (of_t) REFERENCES t".encode())
    [after] = block.execute(_MADE).fetchone() or (0,)
    assert after - before <= 2 * 4 * len(tables[48:])
    assert locks(gateway_process, block, f"{schema}.t")
    assert other.execute("SELECT count(*) FROM t").fetchone() == (3,)
    block.execute("INSERT INTO made_0 VALUES (1, 1)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
        block.execute("INSERT INTO made_51 VALUES (1, 4)")
    block.commit()
    found = "SELECT count(*) FROM pg_constraint WHERE confrelid = 't'::regclass AND contype = 'f'"
    assert other.execute(found).fetchone() == (len(tables),)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        other.execute("DELETE FROM t WHERE id = 1")


def test_nobody_waits_for_a_table_that_refers_to_a_new_one_and_to_another(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    block.execute("CREATE TABLE made (id integer PRIMARY KEY)")
    block.execute("CREATE TABLE last (of_t integer REFERENCES t, of_made integer REFERENCES made)")
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("INSERT INTO t VALUES (4, 40, 'd')")
    block.execute("INSERT INTO made VALUES (7)")
    block.execute("INSERT INTO last VALUES (4, 7)")
    for wrong in ("5, 7", "4, 8"):
        with pytest.raises(psycopg.errors.ForeignKeyViolation), block.transaction():
            block.execute(f"INSERT INTO last VALUES ({wrong})".encode())
    block.execute("DROP TABLE t CASCADE")
    block.execute("ROLLBACK AND CHAIN")
    block.execute("CREATE TABLE made (id integer PRIMARY KEY)")
    block.execute("CREATE TABLE last (of_t integer REFERENCES t, of_made integer REFERENCES made)")
    block.execute("DROP TABLE made, t CASCADE")
    assert not locks(gateway_process, block, f"{schema}.t")
    assert other.execute("SELECT count(*) FROM t").fetchone() == (4,)
    block.execute("INSERT INTO last VALUES (9, 9)")
    block.commit()
    assert other.execute("SELECT * FROM last").fetchall() == [(9, 9)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        other.execute("SELECT FROM t")


def test_a_row_that_a_new_table_refers_to_cannot_go(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("CREATE TABLE made (of_t integer REFERENCES t)")
    block.execute("INSERT INTO made VALUES (1)")
    done: list[int] = []

    def delete() -> None:
        try:
            done.append(other.execute("DELETE FROM t WHERE id = 1").rowcount)
        except psycopg.errors.ForeignKeyViolation:
            done.append(0)

    waiting = threading.Thread(target=delete)
    waiting.start()
    waiting.join(2)
    assert waiting.is_alive(), "it does not wait for the row"
    block.commit()
    waiting.join(60)
    assert done == [0]


def test_a_new_table_that_refers_to_others_is_undone(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("SAVEPOINT before")
    block.execute("CREATE TABLE made (of_t integer REFERENCES t ON DELETE CASCADE)")
    block.execute("INSERT INTO made VALUES (1)")
    block.execute("ROLLBACK TO before")
    with pytest.raises(psycopg.errors.UndefinedTable), block.transaction():
        block.execute("SELECT FROM made")
    for wrong in (
        "CREATE TABLE made (of_t text REFERENCES t)",
        "CREATE TABLE made (of_t integer REFERENCES t (n))",
        "CREATE TABLE t (of_t integer REFERENCES t)",
    ):
        with pytest.raises(psycopg.Error), block.transaction():
            block.execute(wrong.encode())
    block.execute("CREATE TABLE IF NOT EXISTS t (of_t integer REFERENCES t)")
    block.execute("CREATE TABLE made (of_t integer CONSTRAINT found REFERENCES t ON DELETE CASCADE)")
    block.execute("DROP TABLE made")
    block.execute("CREATE TABLE made (of_t integer CONSTRAINT found REFERENCES t ON DELETE CASCADE)")
    block.execute("INSERT INTO made VALUES (2)")
    block.commit()
    other.execute("DELETE FROM t WHERE id = 2")
    assert other.execute("SELECT FROM made").fetchall() == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1, 11) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
        "MERGE INTO t USING (VALUES (1)) AS s (id) ON s.id = t.id WHEN MATCHED THEN UPDATE SET n = 11",
        "SELECT FROM t WHERE id = 1 FOR UPDATE",
    ],
    ids=["on conflict", "merge", "for update"],
)
def test_rows_that_are_replaced_or_locked_stay_locked(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection, statement: str
) -> None:
    block.execute("ALTER TABLE t ADD COLUMN m integer DEFAULT 0")
    block.execute(statement.encode())
    assert not locks(gateway_process, block, f"{schema}.t")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("SELECT FROM t WHERE id = 1 FOR UPDATE NOWAIT")
    other.execute("UPDATE t SET n = 22 WHERE id = 2")
    block.commit()
    expected = 10 if statement.startswith("SELECT") else 11
    assert other.execute("SELECT id, n, m FROM t ORDER BY id").fetchall() == [(1, expected, 0), (2, 22, 0), (3, 30, 0)]
