"""Drivers' cursors, in bounded memory: psycopg's by name, asyncpg's portals, SQLAlchemy's streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy

from tests.conftest import Watcher
from tests.servers import GatewayProcess, Server

pytestmark = pytest.mark.turns

_TEXT = "y" * 1800
_QUERY = "SELECT n, t || '' FROM many"  # Spark's: columns alone would come straight from the file
# The oracle gets enough to tell what is right; the gateway 180 MB, more than its memory may grow by.
_ROWS = {"postgres": 20_000, "gateway": 100_000}
_MEMORY_BYTES_MAX = 150 << 20


@pytest.fixture(scope="module")
def many(target: Server) -> Iterator[int]:
    """A table of so many rows."""
    rows = _ROWS[target.name]
    target.psql("-qc", "CREATE TABLE many (n integer, t text)")
    target.psql("-qc", f"INSERT INTO many SELECT n, '{_TEXT}' FROM generate_series(1, {rows}) AS n")
    yield rows
    target.psql("-qc", "DROP TABLE many")


class _Memory:
    """The gateway's resident memory, over what it was at first."""

    def __init__(self, request: pytest.FixtureRequest, target: Server) -> None:
        self._process: int | None = None
        if target.name == "gateway":
            process: GatewayProcess = request.getfixturevalue("gateway_process")
            self._process = process.process.pid
        target.query("SELECT count(*) FROM many")
        self._before = self._resident()
        self._highest = self._before

    def _resident(self) -> int:
        if self._process is None:
            return 0
        return int(Path(f"/proc/{self._process}/statm").read_text().split()[1]) * 4096

    def look(self) -> None:
        self._highest = max(self._highest, self._resident())
        assert self._highest - self._before < _MEMORY_BYTES_MAX


@pytest.fixture
def memory(request: pytest.FixtureRequest, target: Server, many: int) -> _Memory:
    return _Memory(request, target)


def test_forward(target: Server, many: int, memory: _Memory) -> None:
    """Row by row, as far as it goes, with other statements between."""
    with psycopg.connect(target.url) as connection:
        with connection.cursor("forward") as cursor:
            cursor.itersize = 5000
            cursor.execute(f"{_QUERY} WHERE n > %s", (10,))
            total = count = 0
            for n, t in cursor:
                assert t == _TEXT
                total += n
                count += 1
                if count % 30_000 == 0:
                    memory.look()
                    assert connection.execute("SELECT count(*) FROM many WHERE n < 4").fetchone() == (3,)
        assert (count, total) == (many - 10, many * (many + 1) // 2 - 55)


@pytest.mark.parametrize("ended", [False, True], ids=["in its transaction", "held over COMMIT"])
def test_to_and_fro(target: Server, many: int, memory: _Memory, ended: bool) -> None:
    """A cursor that scrolls keeps its rows on disk, and so does one that outlives its transaction."""
    with (
        psycopg.connect(target.url) as connection,
        connection.cursor("back", scrollable=True, withhold=ended) as cursor,
    ):
        cursor.execute(f"{_QUERY} ORDER BY n")
        if ended:
            connection.commit()
        for place in (many - 1, 0, many // 2, many // 3, many - 2):
            cursor.scroll(place, mode="absolute")
            assert cursor.fetchone() == (place + 1, _TEXT)
            memory.look()
        cursor.scroll(-100, mode="relative")
        assert [n for n, _ in cursor.fetchmany(3)] == [many - 100, many - 99, many - 98]
        cursor.scroll(0, mode="absolute")
        cursor.itersize = 1000
        assert sum(1 for _ in cursor) == many
        memory.look()


@pytest.mark.parametrize("target", ["gateway"], indirect=True)
def test_others_do_not_wait(target: Server, many: int, unblocked: Watcher) -> None:
    """While rows are kept on disk and read back, `SELECT 1` is answered."""
    with psycopg.connect(target.url) as connection, connection.cursor("back", scrollable=True) as cursor:
        cursor.execute(f"{_QUERY} ORDER BY n")
        cursor.scroll(many - 1, mode="absolute")
        assert cursor.fetchone() == (many, _TEXT)
        connection.execute("MOVE FIRST IN back")
        assert cursor.fetchone() == (2, _TEXT)
        begin = time.monotonic()
        [(first, *_), *_] = connection.execute("FETCH BACKWARD ALL FROM back").fetchall()
        assert (first, time.monotonic() - begin < 60) == (1, True)


@pytest.mark.parametrize("when", ["FETCH ALL FROM long", "COMMIT"])
def test_cancel(target: Server, many: int, when: str) -> None:
    """While a cursor's query runs, be it at COMMIT: 57014, the transaction is undone, and the session goes on."""
    with psycopg.connect(target.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE cancelled (n integer)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO cancelled VALUES (1)")
        of_each = many // 20_000  # so that each row meets 20,000: Spark looks for a cancel after some thousand rows
        connection.execute(
            "DECLARE long CURSOR WITH HOLD FOR SELECT count(*) FROM many a"
            f" JOIN many b ON a.n % {of_each} = b.n % {of_each} WHERE a.n <= b.n + {many}".encode()
        )
        timer = threading.Timer(2.0, connection.cancel_safe)
        timer.start()
        begin = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            connection.execute(when)
        timer.join()
        assert time.monotonic() - begin < 20
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM cancelled").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_cursors").fetchone() == (0,)
        connection.execute("DROP TABLE cancelled")


@pytest.mark.parametrize("sessions", [6, 1])
@pytest.mark.parametrize("target", ["gateway"], indirect=True)
def test_cursors_that_rest_hold_nobody_up(
    target: Server, many: int, gateway_process: GatewayProcess, sessions: int
) -> None:
    """Six that are left alone, be they of one session that goes on: all but two read on into a file, each goes on where
    it stood, and others are served."""
    folder = Path(f"/proc/{gateway_process.process.pid}/fd")

    def files() -> int:
        return sum(path.readlink().name.endswith("(deleted)") for path in folder.iterdir() if path.is_symlink())

    with ExitStack() as stack:
        before = files()
        cursors = []
        connections = [stack.enter_context(psycopg.connect(target.url)) for _ in range(sessions)]
        for number in range(6):
            connection = connections[number % sessions]
            cursor = stack.enter_context(connection.cursor(f"rest_{number}", scrollable=False))
            cursor.execute("SELECT n, left(t, 200) FROM many WHERE n >= %s AND n <= 100000 ORDER BY n", (number,))
            assert cursor.fetchone() == (max(number, 1), "y" * 200)
            cursors.append(cursor)
        deadline = time.monotonic() + 60
        while files() - before < 4:
            assert time.monotonic() < deadline, files() - before
            assert target.query("SELECT count(*) FROM many") == [[str(many)]]
            assert connections[0].execute("SELECT count(*) FROM many").fetchone() == (many,)
        for number, cursor in enumerate(cursors):
            first = max(number, 1) + 1
            assert [n for n, _ in cursor.fetchmany(1000)] == list(range(first, first + 1000))
        for number, cursor in enumerate(cursors):
            cursor.itersize = 10_000
            assert sum(1 for _ in cursor) == 100_000 - max(number, 1) - 1000
    assert files() == before


async def test_asyncpg(target: Server, many: int) -> None:
    """Its cursors are portals, read by Execute and moved by MOVE; in binary."""
    connection = await asyncpg.connect(target.url)
    try:
        async with connection.transaction():
            cursor = await connection.cursor(f"{_QUERY} WHERE n > $1 ORDER BY n", 5)
            assert [row["n"] for row in await cursor.fetch(3)] == [6, 7, 8]
            assert await cursor.forward(1000) == 1000
            assert [row["n"] for row in await cursor.fetch(2)] == [1009, 1010]
            assert await connection.fetchval("SELECT count(*) FROM many WHERE n < 4") == 3
            row = await cursor.fetchrow()
            assert row is not None
            assert tuple(row) == (1011, _TEXT)
            total = 0
            async for row in connection.cursor("SELECT n FROM many WHERE n <= 10000", prefetch=700):
                total += row["n"]
            assert total == 50_005_000
    finally:
        await connection.close()


def test_sqlalchemy(target: Server, many: int) -> None:
    """`stream_results` is a cursor with a name of the driver's."""
    engine = sqlalchemy.create_engine(target.url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect().execution_options(stream_results=True, max_row_buffer=500) as connection:
        result = connection.execute(sqlalchemy.text("SELECT n FROM many WHERE n <= :most ORDER BY n"), {"most": 3000})
        parts = [len(part) for part in result.partitions(1000)]
    engine.dispose()
    assert parts == [1000, 1000, 1000]
