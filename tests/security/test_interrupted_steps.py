"""Statements that a timeout or a CancelRequest ends within any step of the gateway leave nothing behind.

The statement is done as a whole, or not at all. The session keeps its role, its settings, its names; it holds no locks,
and no rows stay in shadows. `SLUICE_INTERRUPTIONS` is how many statements are ended, `SLUICE_INTERRUPTIONS_SEED` which.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg.pq import PipelineStatus, TransactionStatus

from tests.forks import ask_sluice
from tests.servers import GatewayProcess, Server

_COUNT = int(os.environ.get("SLUICE_INTERRUPTIONS", "60"))
_SEED = os.environ.get("SLUICE_INTERRUPTIONS_SEED", "2026-11-30")
_SLOWEST_SECONDS = 0.25
_ENDED = frozenset({"57014"})
_SETUP = """
CREATE TABLE kept (tag text, n integer, label text, PRIMARY KEY (tag, n));
CREATE TABLE noted (tag text, n integer);
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (id integer REFERENCES parent ON DELETE CASCADE, tag text);
CREATE SEQUENCE counted;
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noted VALUES (NEW.tag, NEW.n);
    RETURN NEW;
END $$;
CREATE TABLE watched (tag text, n integer);
CREATE TRIGGER note AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION note();
CREATE FUNCTION add(tag text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kept SELECT tag, g, 'function' FROM generate_series(1, 3) g;
    RETURN (SELECT count(*) FROM kept WHERE label = 'function');
END $$;
CREATE PROCEDURE add_in_parts(tag text) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO kept SELECT tag, g, 'procedure' FROM generate_series(1, 3) g;
    COMMIT;
END $$;
CREATE ROLE {role};
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT {role} TO CURRENT_USER;
"""
_ADDED = "SELECT '{tag}', g, 'added' FROM generate_series(1, 3) g"
# Each adds all three rows of its tag, or none, and all else of it is undone.
_STATEMENTS = (
    f"INSERT INTO kept {_ADDED}",
    "INSERT INTO kept VALUES ('{tag}', 1, 'a'), ('{tag}', 2, 'b'), ('{tag}', 3, 'c') ON CONFLICT DO NOTHING",
    f"INSERT INTO kept {_ADDED} ON CONFLICT (tag, n) DO UPDATE SET label = excluded.label",
    (
        f"MERGE INTO kept USING ({_ADDED}) AS s (tag, n, label) ON kept.tag = s.tag AND kept.n = s.n "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.tag, s.n, s.label) WHEN MATCHED THEN UPDATE SET label = 'merged'"
    ),
    "SELECT add('{tag}')",
    "DO $$ BEGIN PERFORM add('{tag}'); PERFORM nextval('counted'); END $$",
    "CALL add_in_parts('{tag}')",
    "INSERT INTO watched SELECT '{tag}', g FROM generate_series(1, 3) g",
    (
        "WITH added AS (INSERT INTO kept SELECT '{tag}', g, '' FROM generate_series(1, 3) g RETURNING n) "
        "INSERT INTO noted SELECT '{tag}', n FROM added"
    ),
    "EXPLAIN ANALYZE INSERT INTO kept SELECT '{tag}', g, '' FROM generate_series(1, 3) g",
    "BEGIN; SAVEPOINT s; INSERT INTO kept SELECT '{tag}', g, '' FROM generate_series(1, 3) g; RELEASE s; COMMIT",
    (
        "BEGIN; ALTER TABLE kept ADD COLUMN more integer DEFAULT 1; "
        "INSERT INTO kept SELECT '{tag}', g, '' FROM generate_series(1, 3) g; ALTER TABLE kept DROP COLUMN more; COMMIT"
    ),
    f"CREATE TABLE made (tag, n, label) AS {_ADDED}; INSERT INTO kept SELECT * FROM made; DROP TABLE made",
    (
        "INSERT INTO parent VALUES ({number}); INSERT INTO child VALUES ({number}, '{tag}'); "
        "DELETE FROM parent WHERE id = {number}"
    ),
    "UPDATE kept SET label = label || '!' WHERE n = 2",
    "DELETE FROM kept WHERE tag < '{tag}' AND label = 'gone'",
    "SELECT tag, count(*) OVER (), label FROM kept JOIN noted USING (tag) ORDER BY tag, label LIMIT 3",
    "SELECT count(*) FROM kept WHERE n = (SELECT max(n) FROM noted WHERE noted.tag = kept.tag)",
    "CREATE INDEX made_index ON kept (label); DROP INDEX made_index",
    "ALTER TABLE noted ALTER COLUMN n TYPE bigint; ALTER TABLE noted ALTER COLUMN n TYPE integer",
    "DECLARE held CURSOR WITH HOLD FOR SELECT * FROM kept ORDER BY tag, n; FETCH 2 FROM held; CLOSE held",
    "SELECT * FROM kept WHERE n = 1 ORDER BY tag LIMIT 2 FOR UPDATE",
    "ANALYZE kept",
    "REINDEX TABLE kept",
    "LOCK TABLE kept IN EXCLUSIVE MODE; TRUNCATE child",
    "COPY kept FROM STDIN",
    "COPY (SELECT * FROM kept ORDER BY tag, n) TO STDOUT",
    "COPY watched (tag, n) FROM STDIN",
)
# What a session keeps, whatever becomes of its statements.
_KEPT = """
SELECT current_user, session_user, current_setting('search_path'), current_setting('role'),
    (SELECT json_agg(name || '=' || setting ORDER BY name) FROM pg_settings
        WHERE (source = 'session' AND NOT starts_with(name, 'sluice.'))
            OR name IN ('session_replication_role', 'row_security', 'client_encoding')),
    (SELECT json_agg(name || statement ORDER BY name) FROM pg_prepared_statements WHERE NOT starts_with(name, '_pg3_')),
    (SELECT json_agg(name) FROM pg_cursors WHERE name <> ''),
    (SELECT json_agg(relname) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
    (SELECT json_agg(mode || relation::regclass::text) FROM pg_locks
        WHERE pid = pg_backend_pid() AND locktype = 'relation' AND mode <> 'AccessShareLock')
"""
_TORN = """
SELECT tag, count(*) FROM (SELECT tag FROM kept UNION ALL SELECT tag FROM watched) AS rows GROUP BY tag
HAVING count(*) <> 3
UNION ALL SELECT tag, count(*) FROM noted GROUP BY tag HAVING count(*) <> 3
UNION ALL SELECT tag, 0 FROM watched WHERE tag NOT IN (SELECT tag FROM noted)
"""
_LEFT = """
SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname IN ('made', 'made_index')
UNION ALL SELECT attname FROM pg_attribute WHERE attrelid = '{schema}.kept'::regclass AND attname = 'more'
"""


@dataclass(frozen=True)
class _Way:
    """How a statement is sent, and how it is ended."""

    by_timeout: bool
    prepared: bool
    in_block: bool
    pipelined: bool

    @classmethod
    def of(cls, chance: random.Random, sql: str) -> _Way:
        """One by chance, of those that the statement permits."""
        alone = not sql.startswith("COPY") and ";" not in sql.replace("; END", "").replace("); P", "")
        in_block = "BEGIN;" not in sql and "CALL" not in sql and "COPY" not in sql and "WITH HOLD" not in sql
        return cls(
            chance.random() < 0.5,
            alone and chance.random() < 0.5,
            in_block and chance.random() < 0.3,
            alone and in_block and "TABLE" not in sql and chance.random() < 0.3,
        )


@dataclass
class _Client:
    """A session whose statements are ended after a while, in one way or the other."""

    server: Server
    schema: str
    role: str | None
    options: str = ""

    def __post_init__(self) -> None:
        self.connection = psycopg.connect(
            self.server.url,
            autocommit=True,
            prepare_threshold=None,
            options=f"-c search_path={self.schema}{self.options}",
        )
        self.connection.execute("PREPARE mine AS SELECT 1")
        if self.role is not None:
            self.connection.execute(f"SET ROLE {self.role}".encode())
        self.kept = self.connection.execute(_KEPT).fetchall()

    def end_within(self, sql: str, tag: str, seconds: float, way: _Way) -> str | None:
        """Execute it, unless that takes longer; the SQLSTATE with which it failed."""
        ender = threading.Timer(seconds, self.connection.cancel)
        if way.in_block:
            self.connection.execute("BEGIN; SAVEPOINT mine")
        if way.by_timeout:
            self.connection.execute(f"SET statement_timeout = {max(1, int(1000 * seconds))}".encode())
        else:
            ender.start()
        state = None
        try:
            self._execute(sql, tag, way)
        except psycopg.Error as error:
            state = error.sqlstate
        ender.cancel()
        if not way.by_timeout:
            ender.join()
        if self.connection.info.pipeline_status is not PipelineStatus.OFF:
            # libpq cannot leave a pipeline whose COMMIT has failed, PostgreSQL's either.
            self.connection.close()
            self.__post_init__()
            return state
        if self.connection.info.transaction_status is TransactionStatus.INERROR:
            self._execute_surely("ROLLBACK TO mine" if way.in_block else "ROLLBACK")
        for statement in ("RESET statement_timeout", "COMMIT", "RESET statement_timeout"):
            self._execute_surely(statement)
        return state

    def _execute(self, sql: str, tag: str, way: _Way) -> None:
        if not sql.startswith("COPY"):
            with self.connection.pipeline() if way.pipelined else contextlib.nullcontext():
                self.connection.execute(sql.encode(), prepare=way.prepared)
                if way.pipelined:
                    self.connection.execute("INSERT INTO noted SELECT %s, g FROM generate_series(1, 3) g", [f"{tag}+"])
            return
        with self.connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            if sql.endswith("STDOUT"):
                for _ in copy:
                    pass
                return
            more = "" if "watched" in sql else "\tcopied"
            for number in range(1, 4):
                copy.write(f"{tag}\t{number}{more}\n")

    def _execute_surely(self, statement: str) -> None:
        """A CancelRequest may come behind the end of the statement that it was for."""
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            self.connection.execute(statement.encode())
            return
        if statement.startswith("ROLLBACK"):
            self.connection.execute(statement.encode())


@pytest.fixture
def clients(gateway: Server, schema: str) -> Iterator[list[_Client]]:
    role = f"role_{schema}"
    with psycopg.connect(gateway.url, autocommit=True, options=f"-c search_path={schema}") as owner:
        owner.execute(_SETUP.replace("{schema}", schema).replace("{role}", role).encode())
        found = [
            _Client(gateway, schema, None),
            _Client(gateway, schema, role),
            _Client(gateway, schema, None, " -c sluice.engine=spark"),
            _Client(gateway, schema, None, " -c sluice.hot_rows=0"),
        ]
        try:
            yield found
        finally:
            for each in found:
                each.connection.close()
            owner.execute(f"DROP OWNED BY {role}".encode())
            owner.execute(f"DROP ROLE {role}".encode())


@pytest.mark.timeout(1_800)
def test_nothing_is_left(gateway_process: GatewayProcess, schema: str, clients: list[_Client]) -> None:
    chance = random.Random(_SEED)
    ended = 0
    for number in range(_COUNT):
        client, sql = chance.choice(clients), chance.choice(_STATEMENTS)
        seconds, way = chance.random() ** 3 * _SLOWEST_SECONDS, _Way.of(chance, sql)
        tag = f"t{number:05}"
        asked = sql.replace("{tag}", tag).replace("{number}", str(number))
        state = client.end_within(asked, tag, seconds, way)
        ended += state in _ENDED
        assert state in {None, "57014", "42501", "42P07", "42703"}, (state, asked)
        assert client.connection.execute(_KEPT).fetchall() == client.kept, (asked, seconds, way)
        owner = clients[0].connection
        assert owner.execute(_TORN).fetchall() == [], (asked, seconds, way)
    assert ended > _COUNT // 10, "hardly anything was ended"
    checked = ask_sluice("check", "--data-dir", str(gateway_process.data_dir))
    assert not [line for line in checked.stdout.splitlines() if schema in line], checked.stdout
