"""Running changes are visible: in the view and by `sluice changes`."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from catalog.schema.schema_change_progress import Progress
from catalog.schema.states import State
from gateway.cli.schema_changes import change_line
from tests.changes.stages import Held, stopping
from tests.isolation.schedule import Session
from tests.servers import SLUICE, GatewayProcess, Server, run_sluice

pytestmark = pytest.mark.turns

_VIEW = """
SELECT step, state, files_done, files_total, rows_done, rows_total, error FROM pg_sluice.schema_changes
WHERE relation = '{schema}.t' ORDER BY change_id DESC LIMIT 1
"""
_KEEP = """
CREATE TABLE pg_sluice.test_told (files_done bigint, files_total bigint, rows_done bigint, rows_total bigint);
CREATE FUNCTION pg_sluice.test_keep() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO pg_sluice.test_told VALUES (NEW.files_done, NEW.files_total, NEW.rows_done, NEW.rows_total);
    RETURN NULL;
END $$;
CREATE TRIGGER test_keep AFTER UPDATE OF files_done ON pg_sluice.schema_change
    FOR EACH ROW WHEN (NEW.files_total > 0) EXECUTE FUNCTION pg_sluice.test_keep();
"""


@contextmanager
def _told(process: GatewayProcess) -> Iterator[list[tuple[int, ...]]]:
    """Afterwards, all progress that was reported meanwhile."""
    told: list[tuple[int, ...]] = []
    with psycopg.connect(process.catalog_url, autocommit=True) as catalog:
        catalog.execute(_KEEP)
        try:
            yield told
            told += catalog.execute("SELECT * FROM pg_sluice.test_told").fetchall()
        finally:
            catalog.execute("DROP FUNCTION pg_sluice.test_keep() CASCADE; DROP TABLE pg_sluice.test_told")


@pytest.fixture
def session(gateway: Server, schema: str) -> Iterator[Session]:
    """A session with a table of four rows in two files."""
    session = Session(gateway, schema, messages=True)
    session.execute("CREATE TABLE t (id integer, n integer)")
    session.execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
    session.execute("INSERT INTO t VALUES (4, 40)")
    yield session
    session.connection.close()


def _seen(server: Server, schema: str) -> list[str]:
    [row] = server.query(_VIEW.replace("{schema}", schema))
    return row


def test_of_constraints(gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str) -> None:
    with stopping(gateway_process), _told(gateway_process) as told:
        held = Held(gateway_process, session, "ALTER TABLE t ADD CONSTRAINT c CHECK (n > 0)")
        held.get_to(State.VALIDATE)
        assert _seen(gateway, schema)[1:4] == ["validate", "0", "0"]
        assert held.finish() == "ALTER TABLE"
    assert told[-1] == (2, 2, 4, 4)
    assert _seen(gateway, schema) == ['validate "c"', "NULL", "2", "2", "4", "4", "NULL"]


def test_of_files_that_are_written(
    gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str
) -> None:
    with _told(gateway_process) as told:
        assert session.execute("ALTER TABLE t ALTER n TYPE text USING 'n' || n") == "ALTER TABLE"
    assert told[-1] == (2, 2, 4, 4)
    assert _seen(gateway, schema) == ["write files", "NULL", "2", "2", "4", "4", "NULL"]


def test_of_indexes_where_postgresql_shows_its_own(
    gateway_process: GatewayProcess, gateway: Server, session: Session, schema: str
) -> None:
    view = (
        "SELECT pid, datname, relid::regclass::text, index_relid::regclass::text, command, phase, blocks_total,"
        f" tuples_total FROM pg_stat_progress_create_index WHERE relid = '{schema}.t'::regclass"
    )
    rows = [str(session.process_id), gateway.database, f"{schema}.t"]
    with stopping(gateway_process):
        held = Held(gateway_process, session, "CREATE UNIQUE INDEX CONCURRENTLY once ON t (n)")
        held.get_to(State.ABSENT)
        assert gateway.query(view) == [[*rows, "-", "CREATE INDEX CONCURRENTLY", "initializing", "0", "0"]]
        held.resume()
        held.get_to(State.WRITE)
        assert gateway.query(view)[0][3:6] == [
            f"{schema}.once", "CREATE INDEX CONCURRENTLY", "waiting for writers before build"
        ]  # fmt: skip
        assert gateway.query(f"SELECT indisvalid FROM pg_index WHERE indexrelid = '{schema}.once'::regclass") == [["f"]]
        held.resume()
        held.get_to(State.REORG)
        assert gateway.query(view)[0][5] == "building index: scanning table"
        assert held.finish() == "CREATE INDEX"
    assert gateway.query(view) == []


def test_grows_while_many_rows_are_gone_through(gateway_process: GatewayProcess, session: Session) -> None:
    for _ in range(3):
        session.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 600000) g")
    with _told(gateway_process) as told:
        assert session.execute("ALTER TABLE t ADD COLUMN f float8 DEFAULT random()") == "ALTER TABLE"
    assert told == sorted(told)
    assert told[-1][:2] == (5, 5)
    assert told[-1][2:] == (1800004, 1800004)
    assert any(0 < files < 5 for files, *_ in told), told


def test_of_what_fails(gateway: Server, session: Session, schema: str) -> None:
    assert session.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (n > 10)").startswith("ERROR 23514")
    assert _seen(gateway, schema)[6] == 'check constraint "c" of relation "t" is violated by some row'


def test_the_command(gateway_process: GatewayProcess, session: Session, schema: str) -> None:
    directory = ("--data-dir", str(gateway_process.data_dir))
    session.execute("ALTER TABLE t ADD CONSTRAINT negative CHECK (n < 0)")
    with stopping(gateway_process):
        held = Held(gateway_process, session, "ALTER TABLE t  ADD CONSTRAINT c UNIQUE (n)")
        held.get_to(State.REORG)
        shown = run_sluice("changes", *directory)
        watching = subprocess.Popen([str(SLUICE), "changes", "--watch", *directory], stdout=subprocess.PIPE, text=True)
        assert watching.stdout is not None
        try:
            line = next(line for line in watching.stdout if schema in line and "UNIQUE" in line)
            assert held.finish() == "ALTER TABLE"
            done = next(line for line in watching.stdout if "UNIQUE" in line and "  done  " in line)
        finally:
            watching.kill()
            watching.communicate()
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = [line for line in shown.stdout.splitlines() if f"  {schema}.t  " in line]
    assert "failed: check constraint" in lines[0]
    assert 'paused, reorg "c"' in lines[1]
    assert f"{schema}.t  ALTER TABLE t ADD CONSTRAINT c UNIQUE (n)  by sluice" in lines[1]
    assert 'paused, reorg "c"' in line
    assert f"{schema}.t  ALTER TABLE t ADD CONSTRAINT c UNIQUE (n)  by sluice" in done


def test_the_command_in_a_terminal(gateway_process: GatewayProcess, session: Session) -> None:
    session.execute("ALTER TABLE t ADD CONSTRAINT negative CHECK (n < 0)")
    ours, its = pty.openpty()
    command = [str(SLUICE), "changes", "--watch", "--data-dir", str(gateway_process.data_dir)]
    watching = subprocess.Popen(command, stdout=its, stdin=subprocess.DEVNULL)
    try:
        os.close(its)
        said = ""
        while "\x1b[" not in said:  # it goes back over what it has written
            said += os.read(ours, 4096).decode()
        assert "failed: check" in said
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)


def test_the_command_draws_bars(gateway_process: GatewayProcess, session: Session) -> None:
    for _ in range(4):
        session.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 600000) g")
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 240, 0, 0))
    command = [str(SLUICE), "changes", "--watch", "--data-dir", str(gateway_process.data_dir)]
    watching = subprocess.Popen(command, stdout=its, stdin=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "240"})
    try:
        os.close(its)
        said = os.read(ours, 4096).decode()
        answer = session.begin("ALTER TABLE t ADD COLUMN f float8 DEFAULT random()")
        while not (drawn := re.search(r"write files \[(#+)\.+\] (\d+)%, \d of 6 files", said)):
            said += os.read(ours, 4096).decode()
        assert len(drawn[1]) == int(drawn[2]) * 20 // 100
        assert answer.result(120) == "ALTER TABLE"
    finally:
        watching.kill()
        watching.wait()
        os.close(ours)


def test_the_command_without_a_lake(tmp_path: Path) -> None:
    done = run_sluice("changes", "--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no lake" in done.stderr


def test_a_line() -> None:
    change = {
        "change_id": 7, "relation": "s.t", "statement": "ALTER\n TABLE t", "started_by": "me", "error": None,
        "paused": False, "finished": False, "abandoned": False, "step": "write files",
        "files_done": 1, "files_total": 4, "rows_done": 5, "rows_total": 10, "seconds": 1.25,
    }  # fmt: skip
    assert change_line(change, bar=True) == (
        "7  write files [##########..........] 50%, 1 of 4 files, 5 of 10 rows  s.t  ALTER TABLE t  by me  1.2 s"
    )
    assert "[" not in change_line(change, bar=False)
    assert change_line({**change, "finished": True, "error": "no"}, bar=True).startswith("7  failed: no  s.t")
    assert "left behind" in change_line({**change, "abandoned": True}, bar=True)


def test_progress() -> None:
    progress = Progress()
    progress.begin("validate", 2, 10, looking=True)
    progress.has_read(4)
    progress.has_read(3)
    assert (progress.files_done, progress.rows_done) == (0, 4)
    progress.has_read(12)
    assert progress.rows_done == 10
    progress.end()
    assert (progress.files_done, progress.looking) == (2, False)
