"""Compaction and expiry in the catalog: intervals, horizons, and the sessions to which each yields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from catalog.errors import SluiceError
from catalog.maintenance.compaction import InLine, Turn
from catalog.maintenance.expiry import Expired, expire
from catalog.model import ColumnStatistics, DataFile, DeleteFile, TableVersion
from catalog.publish import Deletion, RowChange
from catalog.snapshot_pins import SnapshotPins
from catalog.snapshots import scheduled_files, unreadable
from catalog.store import Store
from gateway.backend.own_message import own
from tests.catalog.conftest import CatalogUnderTest


def file(name: str, rows: int = 3) -> DataFile:
    return DataFile(f"{name}.parquet", rows, 100, 50, {1: ColumnStatistics(rows, 0, 10, "1", "9")})


@pytest.fixture
async def store(lake: CatalogUnderTest) -> AsyncIterator[Store]:
    store = Store(lake.url)
    await store.open()
    yield store
    await store.close()


async def filled(lake: CatalogUnderTest) -> int:
    """A table of two files, of one of which a row is deleted; its OID."""
    await lake.client.execute("CREATE TABLE t (a integer)")
    oid: int = await lake.client.fetchval("SELECT 't'::pg_catalog.regclass::pg_catalog.oid::bigint")
    await stage(lake, RowChange(oid, [file("a")]))
    await stage(lake, RowChange(oid, [file("b")]))
    await stage(lake, RowChange(oid, deleted=[Deletion("a.parquet", 0, DeleteFile("a-delete.parquet", 1, 10, 5))]))
    return oid


async def stage(lake: CatalogUnderTest, change: RowChange) -> None:
    await lake.client.execute(own("SELECT pg_sluice.stage($1::pg_catalog.text::pg_catalog.jsonb)"), change.to_json())


async def version_of(store: Store, oid: int) -> TableVersion:
    return (await store.versions([oid]))[oid]


async def compact(lake: CatalogUnderTest, store: Store, oid: int, name: str = "new") -> str | None:
    """Put one file in place of all."""
    turn = await Turn.take(lake.url, oid)
    assert turn is not None
    try:
        version = await version_of(store, oid)
        return await turn.publish(version.table, version.files, [file(name, version.row_count)])
    finally:
        await turn.close()


async def newest(lake: CatalogUnderTest) -> int:
    found: int = await lake.superuser.fetchval("SELECT max(snapshot_id) FROM pg_ducklake.ducklake_snapshot")
    return found


async def test_new_files_from_a_new_snapshot_on(lake: CatalogUnderTest, store: Store) -> None:
    oid = await filled(lake)
    before, then = await version_of(store, oid), await newest(lake)
    assert await compact(lake, store, oid) is None
    now = await version_of(store, oid)
    assert [each.path for each in now.files] == ["new.parquet"]
    assert now.files[0].delete_file is None
    assert now.row_count == before.row_count == 5
    assert (await store.versions_at([oid], then))[oid].files == before.files
    row = await lake.superuser.fetchrow(
        "SELECT t.record_count, t.next_row_id, t.file_size_bytes, c.changes_made"
        " FROM pg_ducklake.ducklake_table_stats t,"
        " pg_ducklake.ducklake_snapshot_changes c WHERE c.snapshot_id = $1",
        now.snapshot_id,
    )
    assert row is not None
    assert tuple(row) == (5, 11, 100, f"compacted_table:{now.table.table_id}")
    changed = "SELECT pg_sluice.rows_changed(r) FROM pg_sluice.relation r"
    assert await lake.superuser.fetchval(changed) == then
    assert await compact(lake, store, oid, "again") is None
    assert await lake.superuser.fetchval(changed) == then
    assert await unreadable(store) == []


async def test_rows_keep_their_order(lake: CatalogUnderTest, store: Store) -> None:
    """Files that come while others are written anew stay behind these, in what is kept and in what is read anew."""
    oid = await filled(lake)
    version = await version_of(store, oid)
    turn = await Turn.take(lake.url, oid)
    assert turn is not None
    await stage(lake, RowChange(oid, [file("c")]))
    await version_of(store, oid)
    assert await turn.publish(version.table, version.files, [file("new"), file("newer", 2)]) is None
    await turn.close()
    await stage(lake, RowChange(oid, [file("d")]))
    now = await version_of(store, oid)
    assert [each.path for each in now.files] == ["new.parquet", "newer.parquet", "c.parquet", "d.parquet"]
    assert (await store.versions_at([oid], now.snapshot_id))[oid].files == now.files
    other = Store(lake.url)
    await other.open()
    assert await version_of(other, oid) == now
    await other.close()


async def test_it_gives_way(lake: CatalogUnderTest, store: Store) -> None:
    oid = await filled(lake)
    async with lake.client.transaction():
        await lake.superuser.execute("INSERT INTO pg_sluice.row_lock VALUES (0, 1)")
        locked = await lake.client.fetchval(
            own("SELECT pg_sluice.lock_rows($1::bigint::pg_catalog.oid, '{0}', '{1}', 'KEY SHARE', '')"), oid
        )
        assert locked == [1]
        assert await compact(lake, store, oid) == "rows of the table are locked"
    async with lake.client.transaction():
        assert await lake.client.fetchval(own("SELECT pg_sluice.lock_all_rows($1::bigint::pg_catalog.oid, '')"), oid)
        assert await compact(lake, store, oid) == "rows of the table are locked"
    async with lake.client.transaction():
        await lake.client.execute(own("SELECT pg_sluice.order_changes($1::bigint::pg_catalog.oid)"), oid)
        assert await compact(lake, store, oid) == "the table's schema is being changed"
    turn = await Turn.take(lake.url, oid)
    assert turn is not None
    version = await version_of(store, oid)
    await stage(lake, RowChange(oid, deleted=[Deletion("b.parquet", 1, DeleteFile("b-delete.parquet", 1, 10, 5))]))
    assert await turn.publish(version.table, version.files, [file("new", 5)]) == "rows of the files have changed"
    await lake.client.execute("ALTER TABLE t ADD COLUMN b integer")
    assert await turn.publish(version.table, version.files, [file("new", 5)]) == "the table's schema has changed"
    unknown = [DataFile("01890000-0000-7000-8000-000000000000-w7.parquet", 4, 1, 1, {})]
    version = await version_of(store, oid)
    assert await turn.publish(version.table, version.files, unknown) == "the gateway had lost the catalog"
    await turn.close()
    assert len((await version_of(store, oid)).files) == 2


async def test_it_waits_in_line(lake: CatalogUnderTest, store: Store) -> None:
    """While a transaction writes it waits, and later ones wait for it; then it takes what has changed meanwhile."""
    oid = await filled(lake)
    turn = await Turn.take(lake.url, oid)
    assert turn is not None
    version = await version_of(store, oid)
    new = file("new", version.row_count)

    async def settle() -> tuple[Sequence[DataFile], Sequence[Deletion]]:
        now = await version_of(store, oid)
        return now.files, [Deletion("new.parquet", None, DeleteFile("n", 1, 8, 0, positions=(4,)))]

    write = own("SELECT pg_sluice.lock_tables(ARRAY[$1::bigint::pg_catalog.oid], 'ROW EXCLUSIVE', false)")
    async with lake.client.transaction():
        await lake.client.execute(write, oid)
        refused = await turn.publish(version.table, version.files, [new], InLine(50, settle))
        assert refused == "others are committing to the table"
        waiting = asyncio.create_task(turn.publish(version.table, version.files, [new], InLine(10_000, settle)))
        await _until_waiting(lake)
        await stage(lake, RowChange(oid, deleted=[Deletion("b.parquet", 1, DeleteFile("b-delete.parquet", 1, 10, 5))]))
    assert await waiting is None
    now = await version_of(store, oid)
    assert [(each.path, each.live_count) for each in now.files] == [("new.parquet", 4)]
    assert await unreadable(store) == []

    async def nothing() -> tuple[Sequence[DataFile], Sequence[Deletion]]:
        return (), ()

    gone = await turn.publish(now.table, now.files, [file("newer", 4)], InLine(50, nothing))
    assert gone == "rows of the files have changed"
    await lake.client.execute("DROP TABLE t")
    gone = await turn.publish(now.table, now.files, [file("newer", 4)], InLine(50, nothing))
    assert gone == "the table's schema has changed"
    await turn.close()


async def _until_waiting(lake: CatalogUnderTest) -> None:
    for _ in range(1_000):
        if await lake.superuser.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            return
        await asyncio.sleep(0.01)
    pytest.fail("it does not wait")


async def test_who_deletes_rows_of_a_file_that_was_replaced_is_told(lake: CatalogUnderTest, store: Store) -> None:
    """However he came to that without a lock: nothing is lost."""
    oid = await filled(lake)
    assert await compact(lake, store, oid) is None
    late = RowChange(oid, deleted=[Deletion("b.parquet", 1, DeleteFile("late-delete.parquet", 1, 10, 5))])
    with pytest.raises(Exception, match="could not serialize access due to concurrent delete"):
        await stage(lake, late)


async def test_expiry(lake: CatalogUnderTest, store: Store) -> None:
    oid = await filled(lake)
    await compact(lake, store, oid)
    removed: list[str] = []

    async def remove(paths: Sequence[str]) -> None:
        removed.extend(paths)

    pool = store.pool
    assert await expire(pool, "1 hour", remove) == Expired(0, 0)
    readers, others = SnapshotPins(lake.url), SnapshotPins(lake.url)
    await readers.start()
    await others.start()
    try:
        reading, oldest = readers.begin(), await newest(lake) - 1
        await others.pin(oldest)
        await stage(lake, RowChange(oid, [file("c")]))
        assert (await expire(pool, "0", remove)).files == 0
        assert await lake.superuser.fetchval("SELECT min(snapshot_id) FROM pg_ducklake.ducklake_snapshot") == oldest
        await others.unpin(oldest)
        await compact(lake, store, oid, "newer")
        gone = await expire(pool, "0", remove)
        assert gone.files == len(removed) == 3, "what ended before the reading began"
        assert sorted(removed) == [
            f"public/t-{(await version_of(store, oid)).table.table_id}/{name}"
            for name in ("a-delete.parquet", "a.parquet", "b.parquet")
        ]
        with pytest.raises(SluiceError, match="is not kept any more"):
            await others.pin(oldest)
        readers.end(reading)
        assert (await expire(pool, "0", remove)).files == 2
        assert await lake.superuser.fetchval("SELECT count(*) FROM pg_ducklake.ducklake_snapshot") == 1
        assert await unreadable(store) == []
        assert await scheduled_files(store) == []
        assert [each.path for each in (await version_of(store, oid)).files] == ["newer.parquet"]
    finally:
        await readers.close()
        await others.close()
    assert await lake.superuser.fetchval("SELECT count(*) FROM pg_sluice.reader") == 0


async def test_what_was_noted_is_removed_by_the_next(lake: CatalogUnderTest, store: Store) -> None:
    """Killed between the note and the removal, or in the midst of it."""
    oid = await filled(lake)
    await compact(lake, store, oid)

    async def fail(_: Sequence[str]) -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011  that very one
        await expire(store.pool, "0", fail)
    assert len(await scheduled_files(store)) == 3
    removed: list[str] = []

    async def remove(paths: Sequence[str]) -> None:
        removed.extend(paths)

    assert await expire(store.pool, "0", remove) == Expired(0, 3)
    assert len(removed) == 3


async def test_a_dead_reader_holds_nothing(lake: CatalogUnderTest, store: Store) -> None:
    await filled(lake)
    await lake.superuser.execute(
        "INSERT INTO pg_sluice.reader (floor, process_id, backend_started) VALUES (0, pg_backend_pid(), 1)"
    )

    async def remove(_: Sequence[str]) -> None:
        pass

    assert (await expire(store.pool, "0", remove)).snapshots > 0


async def test_settings(lake: CatalogUnderTest) -> None:
    """By ALTER DATABASE, which its owner may."""
    asked = "SELECT value FROM pg_sluice.maintenance_settings WHERE name = 'sluice.retention'"
    assert await lake.client.fetchval(asked) == "7 days"
    name = await lake.client.fetchval("SELECT current_database()")
    await lake.client.execute(f"ALTER DATABASE {name} SET sluice.retention = '1 day'")
    assert await lake.client.fetchval(asked) == "1 day"


async def test_a_file_of_positions_stays_while_later_ones_stand_beside_it(lake: CatalogUnderTest, store: Store) -> None:
    oid, removed = await filled(lake), list[str]()

    async def remove(paths: Sequence[str]) -> None:
        removed.extend(path.rpartition("/")[2] for path in paths)

    for positions in ((1,), (1, 2)):
        before = (await version_of(store, oid)).files[0].delete_file
        assert before is not None
        both = DeleteFile(
            f"none-{len(positions)}", 1 + len(positions), 8, 0, None, before.delete_file_id, positions, before.file
        )
        await stage(lake, RowChange(oid, deleted=[Deletion("a.parquet", 0, both)]))
    assert (await expire(store.pool, "0", remove)).files == 0
    now = (await version_of(store, oid)).files[0].delete_file
    assert now is not None
    assert now.file is not None
    assert (now.positions, now.file.path, now.new_paths) == ((1, 2), "a-delete.parquet", ())
    await compact(lake, store, oid)
    await expire(store.pool, "0", remove)
    assert sorted(removed) == ["a-delete.parquet", "a.parquet", "b.parquet"]
    assert await unreadable(store) == []
