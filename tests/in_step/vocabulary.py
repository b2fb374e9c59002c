"""The statements of random sequences, by their part in the protocol: which side answers them, and what they change.

They use few names, so that statements meet: table `t` of the lake, table `w` of the session's own, table `u` that comes
and goes, savepoints `s` and `r`, cursors `c` and `d`, prepared statements `a` and `b`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

INT4: Final = 23
TEXT: Final = 25


class Worded(NamedTuple):
    """A statement, and good values for its parameters, as text."""

    sql: str
    values: tuple[bytes, ...] = ()


def _plain(*texts: str) -> tuple[Worded, ...]:
    return tuple(map(Worded, texts))


# By kind; the weight says how often.
KINDS: Final[Mapping[str, tuple[int, tuple[Worded, ...]]]] = {
    "relayed": (
        12,
        (
            *_plain(
                "SELECT 1 AS one", "SELECT generate_series(1, 5) AS n", "VALUES (1, 'a'), (2, 'b')", "SELECT",
                "SELECT relname FROM pg_class WHERE relname = 'pg_class'", "SHOW TimeZone",
                "SHOW transaction_isolation",
            ),
            Worded("SELECT $1::int + 1 AS n", (b"7",)),
            Worded("SELECT $1::text AS x, $2::int AS y", (b"x", b"2")),
            Worded("SELECT generate_series(1, $1::int) AS n", (b"4",)),
        ),
    ),
    "failing": (
        4,
        _plain(
            "SELECT 1 / 0 AS n", "SELECT nope", "SELECT 1 / (3 - n) AS n FROM generate_series(1, 5) AS n", "SELEC 1",
            "SELECT id FROM nowhere", "SELECT 1; SELECT 2", "INSERT INTO t VALUES (1, 'again')",
            "SELECT 1 / (id - 2) AS n FROM t ORDER BY id",
        ),
    ),
    "lake": (
        8,
        (
            *_plain("SELECT id, v FROM t ORDER BY id", "SELECT count(*) FROM t", "SELECT v FROM t WHERE id = 2"),
            Worded("SELECT v FROM t WHERE id = $1", (b"2",)),
        ),
    ),
    "writing": (
        7,
        (
            *_plain(
                "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (8, 'eight') ON CONFLICT DO NOTHING RETURNING id",
                "UPDATE t SET v = 'u' WHERE id = 1",
            ),
            Worded("INSERT INTO t VALUES ($1, $2)", (b"9", b"nine")),
            Worded("UPDATE t SET v = $1 WHERE id = 2 RETURNING id, v", (b"two",)),
        ),
    ),
    "schema": (
        4,
        _plain(
            "CREATE TABLE u (x int)", "DROP TABLE u", "CREATE TABLE IF NOT EXISTS u (x int)",
            "ALTER TABLE t ADD COLUMN k int DEFAULT 7", "ALTER TABLE t DROP COLUMN IF EXISTS k", "TRUNCATE t",
            "COMMENT ON TABLE t IS 'told'", "INSERT INTO u VALUES (1)", "SELECT x FROM u ORDER BY x",
        ),
    ),
    "temporary": (
        4,
        (
            *_plain(
                "CREATE TEMP TABLE IF NOT EXISTS w (a int NOT NULL, b text)",
                "CREATE TEMP TABLE w (a int NOT NULL, b text)",
                "SELECT a, b FROM w ORDER BY a", "DROP TABLE w", "DELETE FROM w", "INSERT INTO w VALUES (NULL, 'x')",
            ),
            Worded("INSERT INTO w VALUES ($1, $2)", (b"1", b"one")),
        ),
    ),
    "block": (
        12,
        _plain(
            "BEGIN", "BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "SAVEPOINT s", "SAVEPOINT r",
            "ROLLBACK TO s", "ROLLBACK TO SAVEPOINT r", "RELEASE s", "RELEASE SAVEPOINT r", "COMMIT AND CHAIN",
            "BEGIN ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY",
        ),
    ),
    "settings": (
        8,
        _plain(
            "SET application_name = 'one'", "SET LOCAL application_name = 'two'", "SET LOCAL TimeZone = 'Asia/Tokyo'",
            "SET DateStyle = 'German'", "SELECT set_config('application_name', 'three', true) AS s",
            "SELECT set_config('IntervalStyle', 'iso_8601', false) AS s", "RESET application_name", "RESET ALL",
            "SET LOCAL search_path = pg_catalog", "SET search_path = step, pg_catalog", "DISCARD ALL",
            "SET bytea_output = 'escape'", "SET nonsense = 1",
        ),
    ),
    "cursors": (
        6,
        _plain(
            "DECLARE c CURSOR FOR SELECT generate_series(1, 5) AS n",
            "DECLARE d CURSOR FOR SELECT id FROM t ORDER BY id",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1 AS n",
            "DECLARE d SCROLL CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY id",
            "FETCH 2 FROM c", "FETCH 2 FROM d", "FETCH ALL FROM d", "MOVE 1 IN c", "CLOSE c", "CLOSE d", "CLOSE ALL",
        ),
    ),
    "prepared": (
        5,
        _plain(
            "PREPARE a AS SELECT 1 AS one", "PREPARE b AS SELECT id FROM t ORDER BY id",
            "PREPARE b(int) AS SELECT $1 AS n",
            "EXECUTE a", "EXECUTE b", "EXECUTE b(5)", "DEALLOCATE a", "DEALLOCATE b", "DEALLOCATE ALL",
        ),
    ),
    "copies": (
        5,
        _plain(
            "COPY w FROM STDIN", "COPY t FROM STDIN", "COPY t (id, v) FROM STDIN", "COPY w TO STDOUT",
            "COPY (SELECT 1, 2) TO STDOUT", "COPY (SELECT id, v FROM t ORDER BY id) TO STDOUT",
            "COPY nowhere FROM STDIN",
        ),
    ),
    "empty": (2, _plain("", ";", "-- nothing", " ")),
}  # fmt: skip

# What batches are made of.
REPEATED: Final = (
    "INSERT INTO t VALUES ($1, $2)",
    "INSERT INTO t (id, v) VALUES ($1, $2) RETURNING id, v",
    "INSERT INTO t VALUES ($1, $2) ON CONFLICT DO NOTHING",
    "INSERT INTO w VALUES ($1, $2)",
    "UPDATE t SET v = $2 WHERE id = $1",
)

# What a COPY is sent: good lines and bad ones.
LINES: Final = (
    b"21\tx\n",
    b"22\ty\n23\tz\n",
    b"1\tagain\n",
    b"bad\tline\n",
    b"\\N\tnull\n",
    b"24\n",
    b"\\.\n",
    b"25\thal",
)
