"""Notifications among gateways: a client that sends some, or many, or listens, learns nothing and blocks no gateway."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import asyncpg
import psycopg
import pytest

from catalog.bootstrap import bootstrap
from catalog.notifications import About, Paced
from catalog.postgres.embedded import EmbeddedPostgres
from tests.servers import GatewayProcess, open_directory

_CHANNELS = ("pg_sluice_schema", "pg_sluice_confirmed", "pg_sluice_readers")
_SECONDS = 3.0
# Statistics would not do: an idle backend keeps its counts for up to ten seconds.
_COUNTED = """
CREATE SEQUENCE IF NOT EXISTS pg_sluice.{0}_updates MINVALUE 0 START 0;
CREATE OR REPLACE FUNCTION pg_sluice.count_{0}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$ BEGIN PERFORM nextval('pg_sluice.{0}_updates'); RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER counted AFTER UPDATE ON pg_sluice.{0} FOR EACH ROW EXECUTE FUNCTION pg_sluice.count_{0}();
"""
_UNCOUNTED = "DROP FUNCTION pg_sluice.count_{0} CASCADE; DROP SEQUENCE pg_sluice.{0}_updates"
_COUNTS = "SELECT (SELECT last_value FROM pg_sluice.clock_updates), (SELECT last_value FROM pg_sluice.reader_updates)"


def _counts(catalog: psycopg.Connection) -> tuple[int, int]:
    [(heartbeats, tells)] = catalog.execute(_COUNTS).fetchall()
    return heartbeats, tells


@pytest.fixture
def counted(catalog: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """The catalog of the two, which counts heartbeats and what readers tell."""
    for table in ("clock", "reader"):
        catalog.execute(_COUNTED.format(table).encode())
    yield catalog
    for table in ("clock", "reader"):
        catalog.execute(_UNCOUNTED.format(table).encode())


def _flood(catalog: psycopg.Connection, url: str, channels: tuple[str, ...]) -> tuple[int, int, float]:
    """Heartbeats, how often readers tell, and the seconds, while all channels are told something all the while."""
    began = time.monotonic()
    before = _counts(catalog)
    ended = threading.Event()

    def say() -> None:
        with psycopg.connect(url, autocommit=True) as mallory:
            number = 0
            while not ended.is_set():
                number += 1
                for channel in channels:
                    mallory.execute("SELECT pg_notify(%s, %s)", [channel, f"forged {number}"])

    threads = [threading.Thread(target=say) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(_SECONDS)
    ended.set()
    for thread in threads:
        thread.join()
    time.sleep(1.5)  # the last words are heard
    after = _counts(catalog)
    return after[0] - before[0], after[1] - before[1], time.monotonic() - began


def test_words_of_clients_cost_nothing(two: tuple[GatewayProcess, GatewayProcess], counted: psycopg.Connection) -> None:
    heartbeats, tells, seconds = _flood(counted, two[0].server.url, _CHANNELS)
    assert heartbeats < 2 * 2 * (seconds + 2)  # two gateways, every half second
    assert tells < 10


def test_many_words_are_heard_together(two: tuple[GatewayProcess, GatewayProcess], counted: psycopg.Connection) -> None:
    """Even if somebody knew the channels' names: as the superuser does, who could do worse."""
    channels = tuple(counted.execute("SELECT pg_sluice.channel(%s)", [about.value]).fetchall()[0][0] for about in About)
    assert all(secret not in channels for secret in _CHANNELS)
    with psycopg.connect(two[1].server.url, autocommit=True) as other:
        other.execute("CREATE TABLE told (n integer)")
        with psycopg.connect(two[0].catalog_url, autocommit=True) as superuser:
            superuser.execute("SELECT pg_notify(%s, 'DROP TABLE told')", [channels[0]])
        heartbeats, tells, seconds = _flood(counted, two[0].catalog_url, channels)
        assert tells < 2 * (101 * seconds + 55)  # fifty at once, and one in ten milliseconds
        assert heartbeats < 2 * 2 * (101 * seconds + 55)
        other.execute("ALTER TABLE told ADD CHECK (n > 0)")
        assert other.execute("SELECT count(*) FROM told").fetchone() == (0,)
        other.execute("DROP TABLE told")


def test_a_client_learns_no_channel_and_hears_no_word(
    two: tuple[GatewayProcess, GatewayProcess], catalog: psycopg.Connection
) -> None:
    """It may see what everybody's backends do, for it is in pg_monitor."""
    [(secret,)] = catalog.execute("SELECT value FROM pg_sluice.setting WHERE name = 'channel'").fetchall()
    with (
        psycopg.connect(two[0].server.url, autocommit=True) as client,
        psycopg.connect(two[1].server.url, autocommit=True) as other,
    ):
        for channel in _CHANNELS:
            client.execute(f"LISTEN {channel}".encode())
        for _ in range(20):
            shown = client.execute("SELECT query FROM pg_stat_activity").fetchall()
            assert shown
            assert not [query for (query,) in shown if secret in query or query.startswith("LISTEN pg_sluice")]
        for question in ("SELECT pg_sluice.channel('schema')", "SELECT pg_sluice.say('schema')",
                         "SELECT * FROM pg_sluice.setting"):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                client.execute(question.encode())
        other.execute("CREATE TABLE silent (n integer)")
        other.execute("ALTER TABLE silent ADD m integer")
        other.execute("DROP TABLE silent")
        other.execute("NOTIFY pg_sluice_schema, 'from a client'")
        heard = [(word.channel, word.payload) for word in client.notifies(timeout=5, stop_after=1)]
        assert heard == [("pg_sluice_schema", "from a client")]


@pytest.fixture
def small_queue() -> Iterator[EmbeddedPostgres]:
    """A catalog whose queue of words is as small as PostgreSQL lets it be: half a megabyte in place of 8 GB."""
    with open_directory("queue") as directory:
        postgres = EmbeddedPostgres(directory / "postgres")

        async def start() -> None:
            await postgres.start()
            await postgres.stop()
            with (postgres.cluster / "postgresql.conf").open("a") as configuration:
                configuration.write("max_notify_queue_pages = 64\n")
            await postgres.start()
            await bootstrap(postgres.dsn, "/lake/")
            superuser = await asyncpg.connect(postgres.dsn)
            await superuser.execute("CREATE ROLE client LOGIN; GRANT ALL ON SCHEMA public TO client")
            await superuser.close()

        asyncio.run(start())
        yield postgres
        asyncio.run(postgres.stop())


async def _say_much(client: asyncpg.Connection) -> None:
    for number in range(1000):
        await client.execute("SELECT pg_notify('anything', $1 || repeat('x', 7900))", str(number))


def test_a_queue_that_a_client_has_filled_fails_no_commit(small_queue: EmbeddedPostgres) -> None:
    async def fill() -> None:
        listening, filling, working = [await asyncpg.connect(small_queue.dsn, user="client") for _ in range(3)]
        # Who listens, and does not end his transaction, keeps all that was said since.
        await listening.add_listener("anything", lambda *_: None)
        await listening.execute("BEGIN; SELECT 1")
        with pytest.raises(asyncpg.ProgramLimitExceededError, match="too many notifications in the NOTIFY queue"):
            await _say_much(filling)
        # So it is for whoever says anything; a change of a schema does not depend on that.
        with pytest.raises(asyncpg.ProgramLimitExceededError):
            await _say_much(working)
        await working.execute("CREATE TABLE t (n integer)")
        await working.execute("ALTER TABLE t ADD m integer")
        for each in (working, filling, listening):
            await each.close()

    asyncio.run(fill())


def test_many_words_at_once_are_a_few_looks_and_the_last_is_not_lost() -> None:
    async def hear() -> None:
        looks: list[int] = []
        said = 0
        paced = Paced(lambda: looks.append(said))
        for _ in range(10_000):
            said += 1
            paced.hear()
        assert len(looks) <= 51
        await asyncio.sleep(0.1)
        assert looks[-1] == said
        assert len(looks) <= 52
        paced.close()

    asyncio.run(hear())
