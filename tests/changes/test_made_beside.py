"""New objects other than tables in a block with deferred changes: no session waits for them or for the changes."""

from __future__ import annotations

import psycopg
import pytest

from tests.changes.locks import locks
from tests.servers import GatewayProcess

_MADE = (
    ("CREATE DOMAIN size AS integer CHECK (VALUE > 0)", "DOMAIN size"),
    ("CREATE TYPE place AS (x integer, y text)", "TYPE place"),
    ("CREATE TYPE span AS RANGE (subtype = integer)", "TYPE span"),
    ("CREATE FUNCTION f(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x + 1'", "FUNCTION f"),
    ("CREATE FUNCTION m() RETURNS bigint LANGUAGE sql AS 'SELECT sum(added) FROM t'", "FUNCTION m"),
    ("CREATE OR REPLACE FUNCTION was(x integer) RETURNS integer LANGUAGE sql AS 'SELECT x - 1'", "FUNCTION was"),
    ("CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN END'", "PROCEDURE p"),
    ("CREATE AGGREGATE a (integer) (sfunc = int4pl, stype = integer)", "AGGREGATE a (integer)"),
    (
        "CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = integer, RIGHTARG = integer)",
        "OPERATOR ===(integer, integer)",
    ),
    ('CREATE COLLATION plain FROM "C"', "COLLATION plain"),
    ("CREATE TEXT SEARCH CONFIGURATION plainly (COPY = simple)", "TEXT SEARCH CONFIGURATION plainly"),
    ("ALTER FUNCTION was(integer) IMMUTABLE", None),
    ("CREATE CAST (day AS date) WITH FUNCTION day(day)", "CAST (day AS date)"),
)


@pytest.mark.turns
@pytest.mark.parametrize(("statement", "made"), _MADE)
@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_nobody_waits(  # noqa: PLR0917
    gateway_process: GatewayProcess,
    schema: str,
    block: psycopg.Connection,
    other: psycopg.Connection,
    statement: str,
    made: str | None,
    prepare: bool,
) -> None:
    other.execute("CREATE FUNCTION was(x integer) RETURNS integer LANGUAGE sql AS 'SELECT x'")
    other.execute("CREATE TYPE day AS ENUM ('today')")
    other.execute("CREATE FUNCTION day(x day) RETURNS date LANGUAGE sql AS 'SELECT current_date'")
    block.execute("ALTER TABLE t ADD COLUMN added integer DEFAULT 7")
    block.execute(statement.encode(), prepare=prepare)
    assert not locks(gateway_process, block, f"{schema}.t")
    other.execute("UPDATE t SET n = n + 1 WHERE id = 1")
    assert other.execute("SELECT was(3)").fetchone() == (3,)
    block.execute("UPDATE t SET n = n + 1 WHERE id = 2")
    block.commit()
    assert other.execute("SELECT n, added FROM t WHERE id < 3 ORDER BY id").fetchall() == [(11, 7), (21, 7)]
    if made is not None:
        other.execute(f"DROP {made}".encode())


def test_they_are_used(
    gateway_process: GatewayProcess, schema: str, block: psycopg.Connection, other: psycopg.Connection
) -> None:
    """By tables that the block makes, and by changes that it defers."""
    block.execute("ALTER TABLE t ADD COLUMN added integer DEFAULT 7")
    for statement in (
        "CREATE DOMAIN size AS integer CHECK (VALUE > 0)",
        "CREATE FUNCTION f(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT x + 1'",
        "CREATE TABLE box (id integer, size size DEFAULT f(1))",
        "INSERT INTO box VALUES (1)",
        "ALTER TABLE t ADD COLUMN size size DEFAULT 4, ADD CHECK (f(n) > 1)",
        "ALTER DOMAIN size ADD CHECK (VALUE < 10)",
        "CREATE FUNCTION g(x integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT f(x)'",
        "UPDATE t SET size = 5 WHERE id = 1",
        "ALTER TABLE t ALTER added SET DEFAULT g(3)",
        "INSERT INTO t VALUES (4, 40, 'd')",
    ):
        block.execute(statement.encode())
        assert not locks(gateway_process, block, f"{schema}.t")
        other.execute("UPDATE t SET name = name || 'x' WHERE id = 2")
    for statement in ("INSERT INTO box VALUES (2, 0)", "INSERT INTO box VALUES (2, 10)", "UPDATE t SET n = -2"):
        with pytest.raises(psycopg.errors.CheckViolation), block.transaction():
            block.execute(statement.encode())
    block.commit()
    assert other.execute("SELECT id, added, size::integer FROM t ORDER BY id").fetchall() == [
        (1, 7, 5),
        (2, 7, 4),
        (3, 7, 4),
        (4, 4, 4),
    ]
    assert other.execute("SELECT size::integer FROM box").fetchall() == [(2,)]


def test_what_is_undone_is_not_there(block: psycopg.Connection, other: psycopg.Connection) -> None:
    block.execute("ALTER TABLE t ADD COLUMN added integer DEFAULT 7")
    block.execute("SAVEPOINT here")
    block.execute("CREATE DOMAIN size AS integer")
    block.execute("ROLLBACK TO here")
    with pytest.raises(psycopg.errors.UndefinedObject), block.transaction():
        block.execute("ALTER TABLE t ADD COLUMN size size")
    block.execute("CREATE DOMAIN size AS text")
    block.execute("ALTER TABLE t ADD COLUMN size size DEFAULT 'big'")
    block.commit()
    assert other.execute("SELECT DISTINCT size::text FROM t").fetchall() == [("big",)]


def test_a_name_that_the_block_has_changed(block: psycopg.Connection, other: psycopg.Connection) -> None:
    """It means what it means in the block, and settles what was deferred."""
    other.execute("CREATE DOMAIN size AS integer")
    block.execute("ALTER DOMAIN size RENAME TO length")
    block.execute("CREATE DOMAIN size AS text")
    block.execute("CREATE DOMAIN width AS length")
    block.commit()
    query = "SELECT typname, typbasetype::regtype::text FROM pg_type WHERE typname IN ('length', 'size', 'width')"
    assert other.execute(
        f"{query} AND typnamespace = current_schema()::regnamespace ORDER BY 1".encode()
    ).fetchall() == [
        ("length", "integer"),
        ("size", "text"),
        ("width", "length"),
    ]
