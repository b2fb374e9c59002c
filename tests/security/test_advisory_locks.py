"""Advisory locks belong to clients: the gateways use none, and a client's lock blocks no other session's work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from catalog.bootstrap import bootstrap
from tests.servers import GatewayProcess

# What a commit may take that waits for nobody, on a busy machine.
_SECONDS_MAX = 15.0
_HELD = "SELECT pid, classid, objid, objsubid FROM pg_locks WHERE locktype = 'advisory'"
_DATA_PATH = "SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path'"
# Keys that gateways have taken once, as any client can.
_KEYS_OF_TEXTS = ("sluice clock", "sluice expiry", "sluice bootstrap")
_KEYS_OF_NUMBERS = ("sluice change", "sluice gateway", "sluice reader")
_KEYS_OF_TABLES = ("sluice change of a table", "sluice compaction")
_WORK = (
    "INSERT INTO {0} SELECT n, n FROM generate_series(1, 100) n",
    "INSERT INTO {0} VALUES (101, 101)",
    "ALTER TABLE {0} ADD CHECK (n > 0)",
    "ALTER TABLE {0} ADD UNIQUE (n)",
    "ALTER TABLE {0} ALTER m TYPE text USING m::text || '!'",
    "CREATE INDEX ON {0} (m)",
    "DELETE FROM {0} WHERE n % 2 = 0",
    "INSERT INTO {0} VALUES (102, '102')",
    "VACUUM {0}",
)


@contextmanager
def _watched(look: Callable[[], object]) -> Iterator[list[object]]:
    """Whatever `look` sees that is true, all the while."""
    seen: list[object] = []
    looks: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            looks.append(1)
            if found := look():
                seen.append(found)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
    assert len(looks) > 100


def test_gateways_at_work_hold_none(two: tuple[GatewayProcess, GatewayProcess], catalog: psycopg.Connection) -> None:
    with (
        psycopg.connect(two[0].server.url, autocommit=True) as here,
        psycopg.connect(two[1].server.url, autocommit=True) as there,
        _watched(lambda: catalog.execute(_HELD).fetchall()) as seen,
    ):
        here.execute("ALTER DATABASE sluice SET sluice.retention = '0'")
        here.execute("CREATE TABLE watched (n integer, m integer)")
        for number, statement in enumerate(_WORK):
            (there if number % 2 else here).execute(statement.format("watched").encode())
        assert there.execute("SELECT count(*) FROM watched").fetchone() == (52,)
        here.execute("ALTER DATABASE sluice RESET sluice.retention")
        here.execute("DROP TABLE watched")
        time.sleep(1)  # and when idle
    assert seen == []


def test_a_client_that_takes_every_key_stops_nobody(
    two: tuple[GatewayProcess, GatewayProcess], catalog: psycopg.Connection
) -> None:
    with (
        psycopg.connect(two[0].server.url, autocommit=True) as mallory,
        psycopg.connect(two[1].server.url, autocommit=True) as other,
    ):
        other.execute("CREATE TABLE wanted (n integer, m integer)")
        taking = [
            f"pg_try_advisory_lock(hashtext('{text}'), 0), pg_try_advisory_lock(hashtext('{text}'))"
            for text in _KEYS_OF_TEXTS
        ]
        taking += [
            f"pg_try_advisory_lock(hashtext('{text}'), n) FROM generate_series(1, 300) n" for text in _KEYS_OF_NUMBERS
        ]
        taking += [
            f"pg_try_advisory_lock(hashtext('{text}'), 'wanted'::regclass::oid::bigint::integer)"
            for text in _KEYS_OF_TABLES
        ]
        for each in taking:
            mallory.execute(f"SELECT {each}".encode())
        # They are locks as PostgreSQL's are: of one who asks for one of them.
        assert other.execute("SELECT pg_try_advisory_lock(hashtext('sluice clock'), 0)").fetchone() == (False,)
        other.execute(f"SET statement_timeout = '{_SECONDS_MAX}s'".encode())
        time.sleep(3)  # longer than a gateway serves that is not heard
        for statement in _WORK:
            begun = time.monotonic()
            other.execute(statement.format("wanted").encode())
            assert time.monotonic() - begun < _SECONDS_MAX, statement
        assert other.execute("SELECT count(*) FROM wanted").fetchone() == (52,)
        [(path,)] = catalog.execute(
            "SELECT value FROM pg_ducklake.ducklake_metadata WHERE key = 'data_path'"
        ).fetchall()

        async def begin() -> None:
            async with asyncio.timeout(_SECONDS_MAX):
                await bootstrap(two[0].catalog_url, path)

        asyncio.run(begin())
        assert len(catalog.execute(_HELD).fetchall()) == 2 * 3 + 300 * 3 + 2
        other.execute("DROP TABLE wanted")
