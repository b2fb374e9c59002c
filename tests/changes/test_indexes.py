"""Indexes with sidecars: created, failing, killed, dropped; their readers, and the files left in the folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from catalog.schema.states import PATHS, Direction, State, Work
from tests.changes.stages import Held, failing, stopping
from tests.forks import ask_sluice
from tests.isolation.schedule import Session
from tests.servers import GatewayProcess, Server

_ROWS = 20_000
_WAIT_SECONDS_MAX = 60.0
_STATES = PATHS[Work.REORGANISATION, Direction.ADDING][:-1]
_CREATE = "CREATE INDEX by_n ON t (n)"
_NO_SIDECAR = """
CREATE FUNCTION pg_sluice.test_no_sidecar() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'no sidecars today';
END $$;
CREATE TRIGGER test_no_sidecar BEFORE INSERT ON pg_sluice.sidecar
    FOR EACH ROW EXECUTE FUNCTION pg_sluice.test_no_sidecar();
"""


def fill(server: Server, schema: str, table: str = "t", first: int = 0) -> None:
    """A table that is worth a sidecar: n is each of 0 to 99 as often as all others."""
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={schema}") as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (id integer, n integer, s text)".encode())
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
            copy.write("".join(f"{g}\t{g % 100}\tRow {g}\n" for g in range(first, first + _ROWS)))


def sidecars(process: GatewayProcess) -> list[Path]:
    """Those in the lake's folder."""
    return sorted((process.data_dir).rglob("index-*/*.parquet"))


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _files(process: GatewayProcess) -> tuple[int, int]:
    """Of all indexes together: data files with sidecars, of so many."""
    with psycopg.connect(process.catalog_url) as catalog:
        [row] = catalog.execute(
            "SELECT coalesce(sum(files_done), 0)::int, coalesce(sum(files_total), 0)::int FROM pg_sluice.indexes"
        ).fetchall()
    return row[0], row[1]


def _check(process: GatewayProcess) -> list[str]:
    return ask_sluice("check", "--data-dir", str(process.data_dir)).stdout.splitlines()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway whose lake has nothing but what these tests put there."""
    from tests.servers import open_directory  # noqa: PLC0415

    with open_directory("indexes") as directory, GatewayProcess(directory / "data") as process:
        yield process


@pytest.fixture
def session(own: GatewayProcess) -> Iterator[Session]:
    fill(own.server, "public")
    session = Session(own.server, "public", messages=True)
    yield session
    session.execute("DROP TABLE IF EXISTS t")
    session.connection.close()


@pytest.mark.turns
@pytest.mark.parametrize(("before", "after"), list(pairwise(_STATES)))
def test_a_step_that_fails_leaves_nothing(own: GatewayProcess, session: Session, before: State, after: State) -> None:
    with failing(own, before, after):
        assert session.execute(_CREATE) == f"ERROR P0001 no {after} today"
    assert session.execute("SELECT count(*) FROM pg_indexes WHERE tablename = 't'") == "(0,)"
    assert session.execute(_CREATE) == "CREATE INDEX"
    assert session.execute("SELECT count(*) FROM t WHERE n = 7") == "(200,)"
    assert session.execute("DROP INDEX by_n") == "DROP INDEX"
    _until(lambda: not sidecars(own))
    assert _check(own) == ["the lake is consistent"]


@pytest.mark.turns
def test_a_file_that_fails_leaves_nothing(own: GatewayProcess, session: Session) -> None:
    with psycopg.connect(own.catalog_url, autocommit=True) as catalog:
        catalog.execute(_NO_SIDECAR.encode())
        try:
            assert session.execute(_CREATE) == "ERROR P0001 no sidecars today"
        finally:
            catalog.execute("DROP FUNCTION pg_sluice.test_no_sidecar() CASCADE")
    assert session.execute("SELECT count(*) FROM pg_indexes WHERE tablename = 't'") == "(0,)"
    _until(lambda: not sidecars(own))
    assert _check(own) == ["the lake is consistent"]


def test_canceled_where_it_works(own: GatewayProcess, session: Session) -> None:
    with stopping(own):
        held = Held(own, session, _CREATE)
        held.get_to(State.REORG)
        session.connection.cancel_safe()
        assert held.answer.result(30).startswith("ERROR 57014")
    assert session.execute("SELECT count(*) FROM pg_indexes WHERE tablename = 't'") == "(0,)"
    _until(lambda: not sidecars(own))


@pytest.mark.turns
def test_files_that_come_later(own: GatewayProcess, session: Session) -> None:
    assert session.execute(_CREATE) == "CREATE INDEX"
    assert _files(own) == (1, 1)
    fill(own.server, "public", first=_ROWS)
    session.execute("INSERT INTO t VALUES (-1, 7, 'small')")
    assert session.execute("SELECT count(*) FROM t WHERE n = 7") == "(401,)"  # with its sidecar or without
    _until(lambda: _files(own) == (2, 2))
    assert session.execute("SELECT count(*) FROM t WHERE n = 7") == "(401,)"
    assert _check(own) == ["the lake is consistent"]
    before = sidecars(own)
    assert session.execute("REINDEX TABLE t") == "REINDEX"
    _until(lambda: _files(own) == (2, 2) and len(sidecars(own)) == 2 and not set(before) & set(sidecars(own)))
    assert session.execute("DROP TABLE t") == "DROP TABLE"
    _until(lambda: not sidecars(own))
    assert _check(own) == ["the lake is consistent"]


def test_in_a_block(own: GatewayProcess, session: Session) -> None:
    """Made with its transaction, or not at all."""
    session.execute("BEGIN")
    assert session.execute(_CREATE) == "CREATE INDEX"
    session.execute("ROLLBACK")
    assert _files(own) == (0, 0)
    session.execute("BEGIN")
    assert session.execute(_CREATE) == "CREATE INDEX"
    assert session.execute("SELECT count(*) FROM t WHERE n = 7") == "(200,)"
    session.execute("COMMIT")
    _until(lambda: _files(own) == (1, 1))
    assert session.execute("SELECT count(*) FROM t WHERE n = 7") == "(200,)"


def test_what_check_says(own: GatewayProcess, session: Session) -> None:
    assert session.execute(_CREATE) == "CREATE INDEX"
    [path] = sidecars(own)
    kept = path.read_bytes()
    path.unlink()
    assert session.execute("SELECT count(*) FROM t WHERE n = 8") == "(200,)"  # read whole
    assert any(line.startswith("missing: ") for line in _check(own))
    path.write_bytes(kept)
    path.with_name("01890000-0000-7000-8000-000000000000.parquet").write_bytes(b"")
    assert any(line.startswith("orphan: ") for line in _check(own))
    path.with_name("01890000-0000-7000-8000-000000000000.parquet").unlink()
    with psycopg.connect(own.catalog_url, autocommit=True) as catalog:
        catalog.execute("DELETE FROM pg_sluice.sidecar")
    assert any(line.startswith("index: ") for line in _check(own))
    path.unlink()


@pytest.mark.soak
def test_killed_in_every_state(data_dir: Path) -> None:
    with GatewayProcess(data_dir) as process:
        fill(process.server, "public")
        for state in _STATES:
            session = Session(process.server, "public", messages=True)
            with stopping(process):
                held = Held(process, session, _CREATE)
                held.get_to(state)
                process.kill()
                process.start()
            assert held.answer.result(30).startswith("ERROR None")
            session.connection.close()
            assert process.server.query("SELECT count(*) FROM pg_indexes WHERE tablename = 't'") == [["0"]]
            _until(lambda: not sidecars(process))
        process.server.psql("-qc", _CREATE)
        # What a gateway leaves undone that dies behind a commit, the next does.
        with psycopg.connect(process.catalog_url, autocommit=True) as catalog:
            catalog.execute(_NO_SIDECAR.encode())
        fill(process.server, "public", first=_ROWS)
        assert _files(process) == (1, 2)
        process.kill()
        process.start()
        with psycopg.connect(process.catalog_url, autocommit=True) as catalog:
            catalog.execute("DROP FUNCTION pg_sluice.test_no_sidecar() CASCADE")
        _until(lambda: _files(process) == (2, 2))
        assert process.server.query("SELECT count(*) FROM t WHERE n = 7") == [["400"]]
    assert _check(process) == ["the lake is consistent"]
