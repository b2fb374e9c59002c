"""A transaction that inserts row by row: its small files become few, and nothing else changes."""

from __future__ import annotations

import psycopg
import pytest

from catalog.model import DataFile, DeleteFile
from gateway.execution.changes.combined_files import many_small
from gateway.execution.locks.row_locks import file_number
from tests.servers import GatewayProcess, Server


def _file(number: int, rows: int = 1, *, published: int | None = None, deletes: bool = False) -> DataFile:
    deleted = DeleteFile("d", 1, 10, 10, None) if deletes else None
    return DataFile(str(number), rows, 100, 10, {}, data_file_id=published, delete_file=deleted)


def _files(rows: int, count: int = 16) -> list[DataFile]:
    return [_file(number, rows) for number in range(count)]


@pytest.mark.parametrize(
    ("files", "combined"),
    [
        (_files(1, 15), 0),
        (_files(1), 16),
        (_files(1, 40), 40),
        ([_file(90, 100), *_files(1)], 16),
        ([*_files(1), _file(90, 100)], 17),
        ([*_files(100, 10), *_files(1, 6)], 16),
        (_files(1000), 16),
        ([_file(90, published=7), *_files(1, 15)], 0),
        ([_file(90, deletes=True), *_files(1, 15)], 0),
        ([*_files(1, 15), _file(90, deletes=True)], 0),
    ],
)
def test_the_last_files_of_one_size(files: list[DataFile], combined: int) -> None:
    assert many_small(files, set(), set()) == (files[len(files) - combined :] if combined else ())


def test_rows_that_have_locks_stay_where_they_are() -> None:
    files = _files(1, 20)
    assert many_small(files, set(), {file_number("10")}) == ()
    assert many_small(files, set(), {file_number("1")}) == files[2:]


def test_files_of_other_columns_stay() -> None:
    assert many_small(_files(1), {1}, set()) == ()


def test_a_column_that_comes_in_between(target: Server, target_schema: str) -> None:
    name = f"{target_schema}.rows"
    target.psql("-qc", f"CREATE TABLE {name} (id int PRIMARY KEY)")
    with psycopg.connect(target.url) as connection:
        for number in range(20):
            connection.execute(f"INSERT INTO {name} VALUES ({number})".encode())
        connection.execute(f"ALTER TABLE {name} ADD COLUMN v text DEFAULT 'old', ADD COLUMN n serial".encode())
        connection.execute(f"ALTER TABLE {name} ALTER COLUMN v SET DEFAULT 'new'".encode())
        for number in range(20, 60):
            connection.execute(f"INSERT INTO {name} VALUES ({number})".encode())
        connection.commit()
        found = connection.execute(f"SELECT v, count(*), count(DISTINCT n), max(n) FROM {name} GROUP BY v".encode())
        assert sorted(found.fetchall()) == [("new", 40, 40, 60), ("old", 20, 20, 20)]


def test_rows_that_were_updated_are_combined_once(target: Server, target_schema: str) -> None:
    """Their files are staged together with deletions, and are combined at two levels."""
    name = f"{target_schema}.rows"
    target.psql("-qc", f"CREATE TABLE {name} (id int PRIMARY KEY, n int)")
    target.psql("-qc", f"INSERT INTO {name} SELECT g, 0 FROM generate_series(1, 300) g")
    counted, added = f"SELECT count(*), count(DISTINCT id), sum(n) FROM {name}".encode(), 0
    with psycopg.connect(target.url) as connection:
        for number in range(1, 290):
            connection.execute(f"UPDATE {name} SET id = id + 1000, n = 1 WHERE id = {number}".encode())
            if number % 17 == 0:  # the tail is combined by the first, what that made by the second
                for _ in range(2):
                    added += 1
                    connection.execute(f"INSERT INTO {name} VALUES ({-added}, 0)".encode())
        inside = connection.execute(counted).fetchone()
    assert inside == (300 + added, 300 + added, 289)
    with psycopg.connect(target.url) as connection:
        assert connection.execute(counted).fetchone() == inside


def test_row_by_row(target: Server, target_schema: str) -> None:
    """Savepoints, deletions of own rows, keys among them, and their order."""
    name = f"{target_schema}.rows"
    target.psql("-qc", f"CREATE TABLE {name} (id int PRIMARY KEY, v text, next int REFERENCES {name})")
    insert = f"INSERT INTO {name} VALUES (%s, %s, %s)".encode()
    with psycopg.connect(target.url) as connection:

        def count() -> int:
            [found] = connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() or (0,)
            return int(found)

        for number in range(40):
            connection.execute(insert, (number, "first", number and number - 1))
        connection.execute("SAVEPOINT s")
        for number in range(40, 80):
            connection.execute(insert, (number, "second", 0))
        assert count() == 80
        connection.execute("ROLLBACK TO s")
        assert count() == 40
        connection.execute(f"DELETE FROM {name} WHERE id = 39".encode())
        for number in range(39, 60):
            connection.execute(insert, (number, "third", number - 1))
        connection.execute("RELEASE s; SAVEPOINT t")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(insert, (3, "again", 0))
        connection.execute("ROLLBACK TO t")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute(insert, (100, "alone", 101))
        connection.execute("ROLLBACK TO t")
        for number in range(60, 95):
            connection.execute(insert, (number, "fourth", number - 1))
        connection.execute(f"UPDATE {name} SET v = 'changed' WHERE id IN (2, 50, 70)".encode())
        connection.commit()
        found = connection.execute(f"SELECT id, v FROM {name} WHERE v <> 'changed'".encode()).fetchall()
    wanted = [(number, "first" if number < 39 else "third" if number < 60 else "fourth") for number in range(95)]
    assert found == [row for row in wanted if row[0] not in (2, 50, 70)]


def test_files_are_few(gateway_process: GatewayProcess, schema: str) -> None:
    server = gateway_process.server
    server.psql("-qc", f"CREATE TABLE {schema}.rows (id int PRIMARY KEY)")
    with psycopg.connect(server.url) as connection:
        for number in range(300):
            connection.execute(f"INSERT INTO {schema}.rows VALUES ({number})".encode())
        connection.commit()
    assert len(list((gateway_process.data_dir / "lake" / schema).rglob("*.parquet"))) < 50
    with psycopg.connect(server.url) as connection:
        for number in range(300, 340):
            connection.execute(f"INSERT INTO {schema}.rows VALUES ({number})".encode())
        connection.rollback()
        assert connection.execute(f"SELECT count(*), sum(id) FROM {schema}.rows".encode()).fetchone() == (300, 44_850)
    assert len(list((gateway_process.data_dir / "lake" / schema).rglob("*.parquet"))) < 50
