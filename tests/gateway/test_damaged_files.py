"""Every reader of a table reports a file that is not the one that the catalog names: XX001, with the file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.forks import ask_sluice
from tests.servers import GatewayProcess

_ROWS = 17_000  # of a file: more than are kept in memory; an index has a sidecar of it

# What reads the second of the three files of `large`, where the row 20000 is.
_READS = {
    "scan": "SELECT count(*), sum(length(v)) FROM large",
    "scan without columns": "SELECT count(*) FROM large WHERE v IS NOT NULL",
    "key": "SELECT v FROM large WHERE id = 20000",
    "index": "SELECT id FROM large WHERE k = 20000",
    "index, and none found": "SELECT id FROM large WHERE k = 20000 AND v = '5'",
    "join": "SELECT count(*) FROM small JOIN large USING (id)",
    "computed": "SELECT sum(twice(id)) FROM large",
    "locked": "SELECT id FROM large WHERE id = 20000 FOR UPDATE",
    "copied out": "COPY large TO STDOUT",
    "query copied out": "COPY (SELECT id FROM large) TO STDOUT",
    "earlier snapshot": "SET sluice.as_of = '{snapshot}'; SELECT count(v) FROM large",
    "cursor": "BEGIN; DECLARE c CURSOR FOR SELECT * FROM large; FETCH ALL FROM c; COMMIT",
    "scrolled cursor": "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM large; FETCH LAST FROM c; COMMIT",
    "held cursor": "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM large; FETCH 3 FROM c",
}
_CHANGES = {
    "update": "UPDATE large SET v = 'x' WHERE v LIKE '%5%'",
    "update by key": "UPDATE large SET v = 'x' WHERE id = 20000",
    "delete": "DELETE FROM large WHERE v LIKE '%5%'",
    "delete by key": "DELETE FROM large WHERE id = 20000",
    "merge": "MERGE INTO large USING (VALUES (20000)) s (i) ON id = i WHEN MATCHED THEN UPDATE SET v = 'y'",
    "duplicate key": "INSERT INTO large VALUES (20000, 'x', 1)",
    "no duplicate key": "INSERT INTO large VALUES (20000, 'x', 1) ON CONFLICT DO NOTHING",
    "upsert": "INSERT INTO large VALUES (20000, 'x', 1) ON CONFLICT (id) DO UPDATE SET v = 'z'",
    "insert from": "INSERT INTO other SELECT id FROM large",
    "reference": "INSERT INTO child VALUES (20000)",
    "reference goes": "DELETE FROM large WHERE id = 19999",
    "table as": "CREATE TABLE made AS SELECT * FROM large",
    "materialized view": "CREATE MATERIALIZED VIEW made AS SELECT * FROM large",
    "temporary table as": "CREATE TEMPORARY TABLE made AS SELECT * FROM large",
    "compaction": "VACUUM FULL large",
    "create index": "CREATE INDEX ON large (v)",
    "create unique index": "CREATE UNIQUE INDEX ON large (v)",
    "add check": "ALTER TABLE large ADD CHECK (v <> 'none')",
    "add unique": "ALTER TABLE large ADD UNIQUE (k)",
    "add foreign key": "ALTER TABLE other ADD FOREIGN KEY (id) REFERENCES large",
    "add foreign key of its own": "ALTER TABLE large ADD FOREIGN KEY (k) REFERENCES large",
    "alter type": "ALTER TABLE large ALTER k TYPE text",
    "alter type by an expression": "ALTER TABLE large ALTER k TYPE text USING k || v",
    "add computed column": "ALTER TABLE large ADD g int GENERATED ALWAYS AS (k + 1) STORED",
    "analyze": "ANALYZE large",
}


def _empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def _cut_off(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _exchanged(path: Path, another: Path) -> None:
    path.write_bytes(another.read_bytes())


_DAMAGES = [_empty, _cut_off, _exchanged]


class _Lake:
    def __init__(self, process: GatewayProcess) -> None:
        self.process = process
        self.root = process.data_dir / "lake"
        self._another: Path | None = None

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.process.server.url, autocommit=True) as connection:
            connection.execute("SET search_path = damaged; SET sluice.hot_rows = 0")
            yield connection

    def run(self, sql: str) -> None:
        """In a session of its own."""
        with self.connected() as connection, connection.cursor() as cursor:
            if sql.startswith("COPY"):
                with cursor.copy(sql.encode()) as copy:
                    for _ in copy:
                        pass
            else:
                cursor.execute(sql.encode())
                while cursor.nextset():
                    pass

    def files(self, table: str, *, deletes: bool = False) -> list[Path]:
        """The table's files, in the order in which they were begun."""
        (folder,) = (self.root / "damaged").glob(f"{table}-*")
        return sorted(path for path in folder.glob("*.parquet") if path.stem.endswith("-delete") == deletes)

    @contextmanager
    def damaged(self, path: Path, damage: Callable[[Path, Path], None]) -> Iterator[None]:
        """The file damaged, and then whole again."""
        content = path.read_bytes()
        damage(path, self.files("other")[0])
        try:
            yield
        finally:
            path.write_bytes(content)

    def failures(self, sql: str) -> list[psycopg.Error]:
        try:
            self.run(sql)
        except psycopg.Error as error:
            return [error]
        return []

    def assert_told(self, sql: str, path: Path) -> None:
        with pytest.raises(psycopg.Error) as raised:
            self.run(sql)
        said = str(raised.value)
        assert raised.value.sqlstate == "XX001", said
        assert str(path.relative_to(self.root)) in said
        assert str(self.root) not in said
        assert "by the catalog" in said


@pytest.fixture(scope="module")
def lake(gateway_process: GatewayProcess) -> Iterator[_Lake]:
    lake = _Lake(gateway_process)
    with psycopg.connect(gateway_process.server.url, autocommit=True) as connection:
        for sql in (
            "CREATE SCHEMA damaged",
            "SET search_path = damaged; SET sluice.hot_rows = 0",
            "CREATE TABLE large (id int PRIMARY KEY, v text, k int)",
            *(
                f"INSERT INTO large SELECT n, md5(n::text), n FROM generate_series({first}, {first + _ROWS - 1}) n"
                for first in range(1, 3 * _ROWS, _ROWS)
            ),
            "CREATE INDEX ON large (k)",
            "CREATE TABLE small (id int, v text)",
            "INSERT INTO small VALUES (1, 'a'), (2, 'b'), (20000, 'c')",
            "CREATE TABLE lost (id int, v text)",
            f"INSERT INTO lost SELECT n, md5(n::text) FROM generate_series(1, {_ROWS}) n",
            "DELETE FROM lost WHERE id % 10 = 0",
            "CREATE TABLE child (id int REFERENCES large)",
            "INSERT INTO child VALUES (19999)",
            "CREATE TABLE other (id int)",
            "INSERT INTO other VALUES (20000)",
            "CREATE FUNCTION twice(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN 2 * n; END'",
        ):
            connection.execute(sql.encode())
        yield lake
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA damaged CASCADE")


def _now(lake: _Lake) -> str:
    with lake.connected() as connection:
        row = connection.execute("SELECT now()::text").fetchone()
        assert row is not None
        return str(row[0])


@pytest.mark.turns
@pytest.mark.parametrize("name", _READS)
def test_reads_tell(lake: _Lake, name: str) -> None:
    """Also where the files were read before, and what was read of them is kept."""
    sql = _READS[name].format(snapshot=_now(lake))
    lake.run(sql)
    victim = lake.files("large")[1]
    for damage in _DAMAGES:
        with lake.damaged(victim, damage):
            lake.assert_told(sql, victim)
    lake.run(sql)


@pytest.mark.turns
@pytest.mark.parametrize("name", _CHANGES)
def test_changes_tell(lake: _Lake, name: str) -> None:
    victim = lake.files("large")[1]
    for damage in _DAMAGES:
        with lake.damaged(victim, damage):
            lake.assert_told(_CHANGES[name], victim)


@pytest.mark.parametrize("damage", _DAMAGES)
def test_small_files_tell(lake: _Lake, damage: Callable[[Path, Path], None]) -> None:
    (victim,) = lake.files("small")
    for sql in (
        "SELECT * FROM small",
        "SELECT count(*) FROM small WHERE v > 'a'",
        "SELECT sum(twice(id)) FROM small",
        "COPY small TO STDOUT",
    ):
        lake.run(sql)
        with lake.damaged(victim, damage):
            lake.assert_told(sql, victim)


@pytest.mark.parametrize("damage", _DAMAGES)
def test_delete_files_tell(lake: _Lake, damage: Callable[[Path, Path], None]) -> None:
    (victim,) = lake.files("lost", deletes=True)
    for sql in ("SELECT count(v) FROM lost", "SELECT v FROM lost WHERE id = 11", "SELECT sum(twice(id)) FROM lost"):
        lake.run(sql)
        with lake.damaged(victim, damage):
            lake.assert_told(sql, victim)
    for sql in ("UPDATE lost SET v = 'x' WHERE id = 11", "DELETE FROM lost", "VACUUM FULL lost"):
        with lake.damaged(victim, damage):
            lake.assert_told(sql, victim)


@pytest.mark.parametrize("damage", _DAMAGES)
def test_sidecars_of_indexes_tell(lake: _Lake, damage: Callable[[Path, Path], None]) -> None:
    victims = sorted((lake.root / "damaged").glob("large-*/index-*/*.parquet"))
    assert len(victims) == 2 * 3
    sql = "SELECT id FROM large WHERE k = 20000"
    lake.run(sql)
    said = []
    for victim in victims:
        with lake.damaged(victim, damage):
            said += lake.failures(sql)
    (error,) = said  # the index of another column, or of other rows, does not matter
    assert error.sqlstate == "XX001"
    assert [victim for victim in victims if str(victim.relative_to(lake.root)) in str(error)]


def test_a_file_of_the_same_size_is_told_by_its_footer(lake: _Lake) -> None:
    """When Spark is given it, and where it is read without Spark."""

    def with_another_footer(path: Path, _: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[:-8] + b"\x07\0\0\0PAR1")

    lake.run(f"CREATE TABLE new AS SELECT n FROM generate_series(1, {_ROWS}) n")
    (victim,) = lake.files("new")
    with lake.damaged(victim, with_another_footer):
        with lake.connected() as connection, pytest.raises(psycopg.errors.DataCorrupted, match="footer has 7 bytes"):
            connection.execute("SELECT sum(n) FROM new")
        with lake.connected() as connection, pytest.raises(psycopg.errors.DataCorrupted):
            connection.execute("VACUUM FULL new")
    lake.run("DROP TABLE new")


def test_a_missing_file_is_named(lake: _Lake) -> None:
    victim = lake.files("large")[1]
    with lake.damaged(victim, lambda path, _: path.unlink()):
        for sql in ("SELECT count(v) FROM large", "SELECT v FROM large WHERE id = 20000", "VACUUM FULL large"):
            with pytest.raises(psycopg.OperationalError) as raised:
                lake.run(sql)
            assert raised.value.sqlstate == "58030"
            name = victim.relative_to(lake.root)
            assert f'could not access file "{name}": No such file or directory' in str(raised.value)


def test_check_tells(lake: _Lake) -> None:
    victim = lake.files("large")[1]
    for damage in _DAMAGES:
        with lake.damaged(victim, damage):
            checked = ask_sluice("check", "--data-dir", str(lake.process.data_dir))
            assert checked.returncode != 0
            assert victim.name in checked.stdout + checked.stderr
            assert "by the catalog" in checked.stdout + checked.stderr
