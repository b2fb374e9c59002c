"""Changes in an open block of objects other than tables, and of unnamed tables: no other session waits for them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess

_BEFORE = "ALTER TABLE t ADD COLUMN m integer DEFAULT 7"


@pytest.fixture
def things(schema: str, other: psycopg.Connection) -> Iterator[str]:
    """A schema with a view, a sequence, a domain, an index and tables that use them; its name."""
    yield from _things(other, f"{schema}_things")


@pytest.fixture(scope="module")
def lasting_things(gateway_process: GatewayProcess) -> Iterator[str]:
    """The same, for tests that roll back what they change."""
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        yield from _things(connection, "lasting_things")


def _things(connection: psycopg.Connection, name: str) -> Iterator[str]:
    for sql in (
        "CREATE SCHEMA {}",
        "CREATE SEQUENCE {}.numbers",
        "CREATE DOMAIN {}.size AS integer",
        "CREATE TYPE {}.mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE {}.item (id serial PRIMARY KEY, size {}.size, mood {}.mood, n bigint)",
        "ALTER TABLE {}.item ALTER n SET DEFAULT nextval('{}.numbers')",
        "CREATE INDEX by_size ON {}.item (size)",
        "CREATE VIEW {}.big AS SELECT id FROM {}.item WHERE size > 1",
        "INSERT INTO {}.item (size, mood) VALUES (1, 'sad'), (2, 'glad')",
    ):
        connection.execute(sql.replace("{}", name).encode())
    yield name
    connection.execute(f"DROP SCHEMA IF EXISTS {name}, {name}_moved CASCADE".encode())


def _goes_on(other: psycopg.Connection, name: str) -> None:
    """Somebody else uses all of it, at once."""
    other.execute("SET statement_timeout = '20s'")
    (big,) = other.execute(f"SELECT count(*) FROM {name}.big".encode()).fetchall()
    other.execute(f"INSERT INTO {name}.item (size, mood) VALUES (3, 'glad')".encode())
    assert other.execute(f"SELECT count(*) FROM {name}.big".encode()).fetchall() == [(big[0] + 1,)]
    other.execute(f"UPDATE {name}.item SET size = size + 1 WHERE size = 3".encode())
    other.execute(f"SELECT nextval('{name}.numbers')".encode())


_CHANGES = {
    "replace view": "CREATE OR REPLACE VIEW {}.big AS SELECT id FROM {}.item WHERE size > 0",
    "rename view": "ALTER VIEW {}.big RENAME TO large",
    "move view": "ALTER VIEW {}.big SET SCHEMA public",
    "alter view": "ALTER VIEW {}.big ALTER id SET DEFAULT 5",
    "drop view": "DROP VIEW {}.big",
    "restart": "ALTER SEQUENCE {}.numbers RESTART WITH 1000",
    "alter sequence": "ALTER SEQUENCE {}.item_id_seq INCREMENT BY 10",
    "rename sequence": "ALTER SEQUENCE {}.numbers RENAME TO digits",
    "restart identity": "ALTER SEQUENCE {}.item_id_seq RESTART WITH 1000",
    "drop sequence": "DROP SEQUENCE {}.numbers CASCADE",
    "reindex table": "REINDEX TABLE {}.item",
    "reindex index": "REINDEX INDEX {}.by_size",
    "drop type": "DROP TYPE {}.mood CASCADE",
    "drop domain": "DROP DOMAIN {}.size CASCADE",
    "constrain domain": "ALTER DOMAIN {}.size ADD CONSTRAINT small CHECK (value < 100)",
    "domain not null": "ALTER DOMAIN {}.size SET NOT NULL",
    "add label": "ALTER TYPE {}.mood ADD VALUE 'so so'",
    "rename type": "ALTER TYPE {}.mood RENAME TO temper",
    "rename schema": "ALTER SCHEMA {} RENAME TO {}_moved",
    "drop schema": "DROP SCHEMA {} CASCADE",
    "statistics": "CREATE STATISTICS {}.both ON size, n FROM {}.item",
}


@pytest.mark.turns
@pytest.mark.parametrize("first", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_nobody_waits(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    block: psycopg.Connection,
    other: psycopg.Connection,
    schema: str,
    lasting_things: str,
    change: str,
    first: bool,
) -> None:
    things = lasting_things
    if first:
        block.execute(_BEFORE.encode())
    block.execute(change.replace("{}", things).encode())
    for relation in ("item", "big", "numbers", "item_id_seq", "by_size"):
        assert not locks(gateway_process, block, f"{things}.{relation}")
    _goes_on(other, things)
    block.execute("SELECT count(*) FROM t")
    _goes_on(other, things)
    assert not locks(gateway_process, block, f"{schema}.t")
    block.rollback()
    _goes_on(other, things)


def test_at_commit_all_of_it_is_there(block: psycopg.Connection, other: psycopg.Connection, things: str) -> None:
    for key in ("replace view", "constrain domain", "add label", "restart", "reindex table", "rename sequence"):
        block.execute(_CHANGES[key].replace("{}", things).encode())
    block.execute(f"ALTER VIEW {things}.big RENAME TO large".encode())
    _goes_on(other, things)
    assert block.execute(f"SELECT count(*) FROM {things}.large".encode()).fetchall() == [(3,)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        other.execute(f"SELECT FROM {things}.large".encode())
    block.commit()
    assert other.execute(f"SELECT count(*) FROM {things}.large".encode()).fetchall() == [(3,)]
    assert other.execute(f"SELECT nextval('{things}.digits')".encode()).fetchall() == [(1000,)]
    other.execute(f"INSERT INTO {things}.item (size, mood) VALUES (4, 'so so')".encode())
    with pytest.raises(psycopg.errors.CheckViolation):
        other.execute(f"INSERT INTO {things}.item (size) VALUES (100)".encode())


def test_rows_that_others_add_keep_a_domain(block: psycopg.Connection, other: psycopg.Connection, things: str) -> None:
    """Of two tables, either."""
    other.execute(f"CREATE TABLE {things}.box AS SELECT size FROM {things}.item".encode())
    for table in ("item", "box"):
        block.execute(f"ALTER DOMAIN {things}.size ADD CONSTRAINT small CHECK (value < 50)".encode())
        other.execute(f"INSERT INTO {things}.{table} (size) VALUES (60)".encode())
        with pytest.raises(psycopg.errors.CheckViolation, match=f'column "size" of table "{table}" contains values'):
            block.commit()
        block.rollback()
        other.execute(f"DELETE FROM {things}.{table} WHERE size = 60".encode())
    block.execute(f"ALTER DOMAIN {things}.size ADD CONSTRAINT small CHECK (value < 50)".encode())
    block.commit()


@pytest.mark.parametrize("sequence", ["numbers", "item_id_seq"])
def test_a_sequence_that_begins_anew_does_so_in_the_block_alone(
    gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection, things: str, sequence: str
) -> None:
    take = f"SELECT nextval('{things}.{sequence}')".encode()
    block.execute(f"ALTER SEQUENCE {things}.{sequence} RESTART WITH 500".encode())
    assert block.execute(take).fetchall() == [(500,)]
    assert other.execute(take).fetchall() == [(3,)]
    assert block.execute(f"INSERT INTO {things}.item (size) VALUES (7) RETURNING id, n".encode()).fetchall() == [
        (3, 501) if sequence == "numbers" else (501, 3)
    ]
    block.execute("SAVEPOINT here")
    block.execute(f"ALTER SEQUENCE {things}.{sequence} RESTART WITH 900".encode())
    assert block.execute(take).fetchall() == [(900,)]
    block.execute("ROLLBACK TO here")
    assert block.execute(take).fetchall() == [(502,)]
    assert not locks(gateway_process, block, f"{things}.{sequence}")
    assert other.execute(take).fetchall()[0][0] < 10
    block.commit()
    assert other.execute(take).fetchall() == [(503,)]


def test_an_identity_that_begins_anew(
    gateway_process: GatewayProcess, block: psycopg.Connection, other: psycopg.Connection, things: str
) -> None:
    other.execute(f"CREATE TABLE {things}.made (id integer GENERATED ALWAYS AS IDENTITY, n integer)".encode())
    add = f"INSERT INTO {things}.made (n) VALUES (1) RETURNING id".encode()
    assert other.execute(add).fetchall() == [(1,)]
    block.execute(f"ALTER TABLE {things}.made ALTER COLUMN id RESTART WITH 70".encode())
    assert block.execute(add).fetchall() == [(70,)]
    assert other.execute(add).fetchall() == [(2,)]
    assert block.execute(add).fetchall() == [(71,)]
    assert not locks(gateway_process, block, f"{things}.made")
    block.commit()
    assert other.execute(add).fetchall() == [(72,)]
    assert other.execute(f"SELECT id FROM {things}.made ORDER BY id".encode()).fetchall() == [
        (1,),
        (2,),
        (70,),
        (71,),
        (72,),
    ]


@pytest.mark.turns
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_advisory_xact_lock(4711)",
        "SELECT pg_try_advisory_xact_lock(hashtext('migrations'))",
        "SELECT pg_notify('changed', 'yes')",
        "CREATE TABLE alike (LIKE plain INCLUDING ALL)",
    ],
)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_beside_it(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    prepare: bool,
) -> None:
    other.execute("CREATE TABLE plain (id integer PRIMARY KEY, name text DEFAULT 'x')")
    block.execute(_BEFORE.encode())
    block.execute(statement.encode(), prepare=prepare)
    assert not locks(gateway_process, block, f"{schema}.t")
    if "advisory" in statement:
        with psycopg.connect(gateway_process.catalog_url) as catalog:
            held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = %s"
            assert catalog.execute(held, [block.info.backend_pid]).fetchone() == (1,)
    if "alike" in statement:
        block.execute("INSERT INTO alike (id) VALUES (1)")
        assert block.execute("SELECT * FROM alike").fetchall() == [(1, "x")]
        assert not locks(gateway_process, block, f"{schema}.t")
    block.commit()


def test_like_a_table_that_the_block_has_changed(block: psycopg.Connection, other: psycopg.Connection) -> None:
    other.execute('CREATE TABLE "Tree" (id integer)')
    block.execute(_BEFORE.encode())
    block.execute('ALTER TABLE U&"Tre\\0065" ADD COLUMN m integer')
    block.execute('CREATE TABLE forest (LIKE "Tree")')
    block.execute("INSERT INTO forest (id, m) VALUES (1, 9)")
    block.execute("CREATE TABLE alike (LIKE t)")
    block.execute("INSERT INTO alike (id, m) VALUES (1, 8)")
    block.commit()
    assert other.execute("SELECT id, m FROM alike UNION ALL SELECT id, m FROM forest").fetchall() == [(1, 8), (1, 9)]


def test_who_takes_a_name_away_first_has_it(block: psycopg.Connection, other: psycopg.Connection, things: str) -> None:
    block.execute(f"DROP VIEW {things}.big".encode())
    other.execute(f"ALTER VIEW {things}.big RENAME TO large".encode())
    with pytest.raises(psycopg.errors.SerializationFailure):
        block.commit()
    assert other.execute(f"SELECT count(*) FROM {things}.large".encode()).fetchall() == [(1,)]


def test_a_schema_that_goes_takes_along_what_others_have_added(
    block: psycopg.Connection, other: psycopg.Connection, things: str
) -> None:
    block.execute(f"DROP SCHEMA {things} CASCADE".encode())
    with pytest.raises(psycopg.errors.UndefinedTable):
        block.execute(f"SELECT FROM {things}.item".encode())
    block.rollback()
    block.execute(f"DROP SCHEMA {things} CASCADE".encode())
    block.execute("INSERT INTO t VALUES (4, 40, 'd')")
    other.execute(f"CREATE TABLE {things}.late (n integer)".encode())
    other.execute(f"INSERT INTO {things}.late VALUES (1)".encode())
    block.commit()
    assert other.execute(f"SELECT to_regclass('{things}.late') IS NULL".encode()).fetchall() == [(True,)]
    assert other.execute("SELECT count(*) FROM t").fetchall() == [(4,)]
