"""SET TRANSACTION SNAPSHOT: one session reads what another has exported, as the workers of pg_dump do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from catalog.postgres.embedded import binaries
from tests.servers import Server

Connect = Callable[[], psycopg.Connection]
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"


@pytest.fixture
def connect(target: Server, target_schema: str) -> Connect:
    """Connects to a server with a table of one row."""

    def connected() -> psycopg.Connection:
        return psycopg.connect(target.url, options=f"-c search_path={target_schema}", autocommit=True)

    with connected() as client:
        client.execute("CREATE TABLE t (n int)")
        client.execute("INSERT INTO t VALUES (1)")
    return connected


def exported(client: psycopg.Connection) -> str:
    [name] = client.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
    return str(name)


def count(client: psycopg.Connection) -> int:
    [found] = client.execute("SELECT count(*) FROM t").fetchone() or (-1,)
    return int(found)


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
@pytest.mark.parametrize("read_only", ["", ", READ ONLY"])
def test_it_reads_the_same_rows(connect: Connect, prepare: bool, read_only: str) -> None:
    with connect() as one, connect() as two, connect() as writer:
        one.execute(f"{_BEGIN}{read_only}".encode())
        assert count(one) == 1
        writer.execute("INSERT INTO t VALUES (2)")
        name = exported(one)
        writer.execute("INSERT INTO t VALUES (3)")
        two.execute(f"{_BEGIN}{read_only}".encode())
        two.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode(), prepare=prepare)
        assert [count(two), count(one)] == [1, 1]
        writer.execute("DELETE FROM t")
        one.execute("COMMIT")
        assert count(two) == 1
        two.execute("COMMIT")
        assert count(two) == 0


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_any_literal_names_it(connect: Connect, prepare: bool) -> None:
    with connect() as one, connect() as two, connect() as writer:
        one.execute(_BEGIN)
        name = exported(one)
        writer.execute("INSERT INTO t VALUES (2)")
        first, rest = name[0], name[1:]
        for literal in (
            f"$${name}$$",
            f"$of${name}$of$",
            f"E'\\x{ord(first):x}{rest}'",
            f"U&'!{ord(first):04x}{rest}' UESCAPE '!'",
            f"/* 'x' */ '{first}' -- 'y'\n '{rest}' ;",
        ):
            two.execute(_BEGIN)
            two.execute(f"SET TRANSACTION SNAPSHOT {literal}".encode(), prepare=prepare)
            assert count(two) == 1, literal
            two.execute("COMMIT")
        for wrong in ("", f"'{name}' || ''", f"'{name}' '{name}'", f"'{name}' UESCAPE '!'", "name", "1"):
            two.execute(_BEGIN)
            with pytest.raises(psycopg.errors.SyntaxError):
                two.execute(f"SET TRANSACTION SNAPSHOT {wrong}".encode(), prepare=prepare)
            two.execute("ROLLBACK")


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "extended"])
def test_errors_are_postgresqls(connect: Connect, prepare: bool) -> None:
    def error_of(begin: str, *before: str, named: str) -> str | None:
        two.execute(begin.encode())
        for sql in before:
            two.execute(sql.encode())
        with pytest.raises(psycopg.Error) as raised:
            two.execute(f"SET TRANSACTION SNAPSHOT '{named}'".encode(), prepare=prepare)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            two.execute("SELECT 1")
        two.execute("ROLLBACK")
        return raised.value.sqlstate

    with connect() as one, connect() as two:
        one.execute(_BEGIN)
        name = exported(one)
        assert error_of("BEGIN", named=name) == "0A000"
        assert error_of(_BEGIN, "SELECT 1", named=name) == "25001"
        assert error_of(_BEGIN, named="x") == "22023"
        assert error_of(_BEGIN, named="x'' OR ''") == "22023"
        assert error_of(_BEGIN, named="0000FFFF-00000001-1") == "42704"
        one.execute("COMMIT")
        assert error_of(_BEGIN, named=name) == "42704"


def test_dumps_by_several_workers(connect: Connect, target: Server, target_schema: str, tmp_path: Path) -> None:
    with connect() as client:
        client.execute("INSERT INTO t SELECT generate_series(2, 300)")
        client.execute("CREATE TABLE other (r int4range, EXCLUDE USING gist (r WITH &&))")
        client.execute("INSERT INTO other SELECT int4range(n, n + 1) FROM generate_series(1, 50) n")
        for program in (
            ["pg_dump", "-Fd", "-j", "3", "-n", target_schema, "-f", str(tmp_path / "dump"), target.url],
            ["pg_restore", "-j", "3", "-d", target.url, str(tmp_path / "dump")],
        ):
            done = subprocess.run(
                [str(binaries() / program[0]), *program[1:]], check=False, capture_output=True, text=True, timeout=120
            )
            assert (done.returncode, done.stderr) == (0, "")
            if program[0] == "pg_dump":
                client.execute(f"DROP SCHEMA {target_schema} CASCADE".encode())
        assert count(client) == 300
        with pytest.raises(psycopg.errors.ExclusionViolation):
            client.execute("INSERT INTO other VALUES ('[7,8)')")
