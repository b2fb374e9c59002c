"""What a gateway keeps of a transaction's changes is what the backend would tell, whatever savepoints undo."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from catalog.model import ColumnStatistics, DataFile, DeleteFile
from catalog.publish import Deletion, RowChange
from gateway.backend.own_message import own
from gateway.transaction.own_changes import OwnChange, OwnChanges
from tests.catalog.conftest import CatalogUnderTest

_STAGE = own("SELECT mark_before, mark_after FROM pg_sluice.stage($1::pg_catalog.text::pg_catalog.jsonb)")
_ASK = own(
    "SELECT relid, description, mark, change FROM pg_sluice.uncommitted($1::pg_catalog.oid[], $2::pg_catalog.int8[])"
)
_STEPS = 60


class _Session:
    """Stages changes as a gateway does, and counts how often the backend had to tell rows."""

    def __init__(self, lake: CatalogUnderTest, oids: list[int]) -> None:
        self._client = lake.client
        self._oids = oids
        self.changes = OwnChanges()
        self.told = 0

    async def stage(self, change: RowChange) -> None:
        self.changes.staging([change])
        [row] = await self._client.fetch(_STAGE, change.to_json())
        self.changes.staged([change], [[str(mark).encode() for mark in row]])

    async def ask(self, marks: list[int]) -> list[Sequence[bytes | None]]:
        rows = await self._client.fetch(_ASK, self._oids, marks)
        return [tuple(None if value is None else str(value).encode() for value in row) for row in rows]

    async def kept(self) -> list[OwnChange]:
        rows = await self.ask(self.changes.marks(self._oids))
        self.told += sum(row[3] is not None for row in rows)
        return self.changes.read(rows)

    async def whole(self) -> list[OwnChange]:
        return OwnChanges().read(await self.ask([-1 for _ in self._oids]))


def _plain(found: list[OwnChange]) -> list[tuple[int, object]]:
    """The changes by table; delete files come in any order."""
    plain: list[tuple[int, object]] = []
    for oid, _, rows in sorted(found, key=lambda each: each.oid):
        deleted = [] if rows is None else sorted(rows.deleted, key=lambda each: each.data_path)
        plain.append((oid, rows and (list(rows.data_files), deleted, rows.truncate)))
    return plain


def _random_change(random: Random, oid: int, number: int, known: list[OwnChange]) -> RowChange:
    """The next change that a gateway might stage for a table, of which it knows what it has staged so far."""
    [rows] = [each.rows for each in known if each.oid == oid]
    statistics = {1: ColumnStatistics(3, 0, 10, "-5", "10"), 2: ColumnStatistics(3, 1, 10, "a", None)}
    hot = '{"1": {"type": "int32"}}' if random.random() < 0.5 else None
    new = DataFile(f"{number}.parquet", 3, 100, 50, statistics, hot_rows=hot)
    own_files = [] if rows is None else [file.path for file in rows.data_files]
    kind = random.choice(("insert", "insert", "delete", "update", "combine", "truncate"))
    if kind == "combine" and len(own_files) > 1:
        return RowChange(oid, [new], combined=random.sample(own_files, random.randint(1, len(own_files))))
    base = DeleteFile("base.parquet", 1, 10, 5) if random.random() < 0.3 else None
    positions = (1, 5) if base is None and random.random() < 0.5 else None
    deleted = [
        Deletion(path, place, DeleteFile(f"{number}-{path}", 2, 10, 5, replaces=place, positions=positions, base=base))
        for place, path in enumerate(random.sample(["x.parquet", "y.parquet", "z.parquet"], 2))
    ]
    return RowChange(
        oid,
        [] if kind == "delete" else [new],
        deleted if kind in ("delete", "update") else [],
        truncate=kind == "truncate",
    )


@pytest.mark.parametrize("seed", range(4))
async def test_it_is_what_the_backend_tells(lake: CatalogUnderTest, seed: int) -> None:
    random = Random(seed)
    session, oids = await _begun(lake, "one", "two")
    savepoints: list[str] = []
    for number in range(_STEPS):
        step = random.choice(("stage", "stage", "stage", "savepoint", "back", "unseen"))
        if step == "stage":
            oid = random.choice(oids)
            await session.stage(_random_change(random, oid, number, await session.kept()))
        elif step == "savepoint":
            savepoints.append(f"s{number}")
            await lake.client.execute(f"SAVEPOINT s{number}")
        elif step == "back" and savepoints:
            at = random.randrange(len(savepoints))
            await lake.client.execute(f"ROLLBACK TO {savepoints[at]}")
            del savepoints[at + 1 :]
        elif step == "unseen":  # nobody looks in between
            [oid, *_] = random.sample(oids, 2)
            await session.stage(_random_change(random, oid, number, await session.whole()))
        if random.random() < 0.6:
            assert _plain(await session.kept()) == _plain(await session.whole()), (seed, number, step)
    await lake.client.execute("ROLLBACK")


async def _begun(lake: CatalogUnderTest, *names: str) -> tuple[_Session, list[int]]:
    """A session in a block, and the OIDs of new tables."""
    oids = []
    for name in names:
        await lake.client.execute(f"CREATE TABLE {name} (a integer, b text)")
        oids.append(await lake.client.fetchval("SELECT $1::pg_catalog.text::pg_catalog.regclass::oid::bigint", name))
    await lake.client.execute("BEGIN")
    return _Session(lake, oids), oids


async def test_nothing_is_told_twice(lake: CatalogUnderTest) -> None:
    session, [oid] = await _begun(lake, "one")
    assert [each.rows for each in await session.kept()] == [None]
    for number in range(20):
        await session.stage(RowChange(oid, [DataFile(f"{number}.parquet", 3, 100, 50)]))
        [known] = await session.kept()
        assert known.rows is not None
        assert len(known.rows.data_files) == number + 1
    assert session.told == 0
    await lake.client.execute("ROLLBACK")


async def test_large_changes_are_not_kept(lake: CatalogUnderTest) -> None:
    session, [oid] = await _begun(lake, "one")
    await session.kept()
    for number in range(3):
        await session.stage(RowChange(oid, [DataFile(f"{number}.parquet", 3, 100, 50, hot_rows="x" * 4_000_000)]))
    assert session.changes.marks([oid]) == [-1]
    assert _plain(await session.kept()) == _plain(await session.whole())
    await lake.client.execute("ROLLBACK")
