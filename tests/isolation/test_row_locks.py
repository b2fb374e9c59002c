"""Row and table locks beyond transcripts: portals in portions, privileges, and refusals."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest

from tests.servers import Server


@pytest.fixture
def jobs(target: Server, target_schema: str) -> str:
    """A table of five rows."""
    target.psql("-qc", f"CREATE TABLE {target_schema}.job (id integer, state text)")
    target.psql("-qc", f"INSERT INTO {target_schema}.job SELECT n, 'new' FROM generate_series(1, 5) n")
    return f"{target_schema}.job"


async def test_rows_come_in_portions_all_of_them_locked(target: Server, jobs: str) -> None:
    one, other = await asyncpg.connect(target.url), await asyncpg.connect(target.url)
    try:
        async with one.transaction():
            cursor = await one.cursor(f"SELECT id FROM {jobs} WHERE id > $1 ORDER BY id LIMIT 3 FOR UPDATE", 1)
            assert [row["id"] for row in await cursor.fetch(2)] == [2, 3]
            assert [row["id"] for row in await cursor.fetch(2)] == [4]
            free = await other.fetch(f"SELECT id FROM {jobs} ORDER BY id FOR UPDATE SKIP LOCKED")
            assert [row["id"] for row in free] == [1, 5]
            with pytest.raises(asyncpg.LockNotAvailableError, match='could not obtain lock on row in relation "job"'):
                await other.fetch(f"SELECT id FROM {jobs} WHERE id = 2 FOR SHARE NOWAIT")
            await other.execute("SET lock_timeout = '100ms'")
            with pytest.raises(asyncpg.LockNotAvailableError, match="canceling statement due to lock timeout"):
                await other.fetch(f"SELECT id FROM {jobs} WHERE id = 2 FOR UPDATE")
            with pytest.raises(asyncpg.LockNotAvailableError):
                async with other.transaction():
                    await other.execute(f"LOCK TABLE {jobs} IN EXCLUSIVE MODE NOWAIT")
    finally:
        await one.close()
        await other.close()


def test_privileges(target: Server, target_schema: str, jobs: str) -> None:
    target.psql(
        "-qc",
        f"CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA {target_schema} TO reader; GRANT SELECT ON {jobs} TO reader",
    )
    try:
        with psycopg.connect(target.url.replace("sluice@", "reader@"), autocommit=True) as reader:
            assert reader.execute(f"SELECT count(*) FROM {jobs}".encode()).fetchone() == (5,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(f"SELECT id FROM {jobs} FOR UPDATE".encode())
            with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
                reader.execute(f"LOCK TABLE {jobs} IN ACCESS SHARE MODE".encode())
            with reader.transaction():
                reader.execute(f"LOCK TABLE {jobs} IN ACCESS SHARE MODE".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege), reader.transaction():
                reader.execute(f"LOCK TABLE {jobs}".encode())
    finally:
        target.psql(
            "-qc",
            f"REVOKE ALL ON {jobs} FROM reader; REVOKE ALL ON SCHEMA {target_schema} FROM reader; DROP ROLE reader",
        )


@pytest.mark.turns
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM shown WHERE pg_advisory_lock(id) IS NOT NULL FOR UPDATE SKIP LOCKED",
        "SELECT id FROM job WHERE pg_advisory_xact_lock(id) IS NOT NULL FOR UPDATE",
        "BEGIN; DECLARE c CURSOR FOR SELECT id FROM job WHERE pg_advisory_lock(id) IS NOT NULL FOR UPDATE",
        "MERGE INTO job j USING (SELECT id FROM job FOR UPDATE) s ON s.id = j.id WHEN MATCHED THEN DELETE",
        "BEGIN; LOCK TABLE shown",
    ],
)
def test_what_is_refused_by_name(gateway: Server, schema: str, statement: str) -> None:
    with psycopg.connect(gateway.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute("CREATE TABLE job (id integer, state text)")
        connection.execute("CREATE VIEW shown AS SELECT id FROM job")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"FOR UPDATE|LOCK TABLE|locks rows|pg_advisory"):
            connection.execute(statement.encode())


def test_a_row_that_another_transaction_has_put_elsewhere(gateway: Server, schema: str) -> None:
    """Nobody knows what has become of the row that a cursor is on: that is no reason to take it for deleted."""
    options = f"-csearch_path={schema}"
    with (
        psycopg.connect(gateway.url, autocommit=True, options=options) as one,
        psycopg.connect(gateway.url, autocommit=True, options=options) as other,
    ):
        one.execute("CREATE TABLE job (id integer, state text)")
        for number in range(4):
            one.execute("INSERT INTO job VALUES (%s, 'new')", [number])
        for statement in (
            "UPDATE job SET state = 'x' WHERE id = 1",
            "DELETE FROM job WHERE id = 1; INSERT INTO job VALUES (1, 'again')",
            "VACUUM job",
        ):
            with one.transaction(force_rollback=True):
                one.execute("DECLARE c CURSOR FOR SELECT * FROM job WHERE id = 1")
                one.execute("DECLARE d CURSOR FOR SELECT * FROM job WHERE id = 2")
                one.execute("MOVE c")
                one.execute("MOVE d")
                other.execute(statement.encode())
                if statement != "VACUUM job":
                    assert one.execute("UPDATE job SET state = 'y' WHERE CURRENT OF d").statusmessage == "UPDATE 1"
                with pytest.raises(psycopg.errors.SerializationFailure):
                    one.execute("UPDATE job SET state = 'y' WHERE CURRENT OF c")


def test_explain_of_a_locking_query(gateway: Server, schema: str) -> None:
    gateway.psql("-qc", f"CREATE TABLE {schema}.job (id integer)")
    plan = gateway.query(f"EXPLAIN SELECT id FROM {schema}.job ORDER BY id LIMIT 1 FOR UPDATE")
    assert any("job" in line for [line, *_] in plan)


@pytest.mark.turns
@pytest.mark.parametrize("change", ["UPDATE job SET state = 'mine' WHERE id = 2", "DELETE FROM job WHERE id = 2"])
@pytest.mark.parametrize(
    ("other_change", "kind"), [("DELETE FROM job", "delete"), ("UPDATE job SET id = id", "update")]
)
def test_the_error_tells_a_deletion_from_an_update(
    target: Server, jobs: str, change: str, other_change: str, kind: str
) -> None:
    options = f"-c search_path={jobs.partition('.')[0]}"
    with (
        psycopg.connect(target.url, autocommit=True, options=options) as one,
        psycopg.connect(target.url, autocommit=True, options=options) as other,
    ):
        other.execute(f"DELETE FROM {jobs} WHERE id = 3".encode())
        one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        one.execute("SELECT * FROM job")
        other.execute(f"{other_change} WHERE id IN (1, 2)".encode())
        other.execute("INSERT INTO job VALUES (7, 'new')")
        with pytest.raises(psycopg.errors.SerializationFailure, match=f"due to concurrent {kind}"):
            one.execute(change.encode())
