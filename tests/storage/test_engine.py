"""Queries stream, are cancelled one by one, and survive the JVM's death."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import datatypes
from catalog.errors import SluiceError
from catalog.model import TableVersion
from storage.plan import RunnableInsert, RunnableQuery
from storage.spark.engine import _THREADS, EngineSettings, SparkEngine
from tests.servers import running
from tests.storage.conftest import Reader
from tests.storage.lake import query, scan, table, write

_ENDLESS = "SELECT count(*) FROM range(1000000000000) WHERE hash(id) % 2 = 3"


@pytest.fixture(scope="module")
def large(lake_path: Path) -> TableVersion:
    """A million rows in four files, ascending."""
    of = table(n=datatypes.INT8, s=datatypes.TEXT)
    parts = []
    for start in range(0, 1_000_000, 250_000):
        numbers = pa.array(range(start, start + 250_000), pa.int64())
        parts.append(pa.table({"n": numbers, "s": numbers.cast(pa.string())}))
    return write(lake_path, of, *parts)


async def test_rows_come_in_the_querys_order(reader: Reader, large: TableVersion) -> None:
    ascending = await reader.table("SELECT c1 FROM t ORDER BY c1", scan(large))
    assert ascending.column(0).to_pylist() == list(range(1_000_000))
    descending = await reader.table("SELECT c1 FROM t ORDER BY c1 DESC LIMIT 300000", scan(large))
    assert descending.column(0).to_pylist() == list(range(999_999, 699_999, -1))


async def test_every_row_comes_once(reader: Reader, large: TableVersion) -> None:
    result = await reader.table("SELECT c1, c2 FROM t", scan(large))
    assert result.num_rows == 1_000_000
    assert sorted(result.column(0).to_pylist()) == list(range(1_000_000))
    assert result.column(0).cast(pa.string()).equals(result.column(1))


@pytest.mark.turns
@pytest.mark.parametrize("limit", [0, 1, 10, 249_999, 700_000, 2_000_000])
async def test_a_limit_is_exact(reader: Reader, large: TableVersion, limit: int) -> None:
    result = await reader.table(f"SELECT c1 FROM t LIMIT {limit}", scan(large))
    assert result.num_rows == min(limit, 1_000_000)
    assert len(set(result.column(0).to_pylist())) == result.num_rows


async def test_a_selective_scan_of_many_partitions_is_whole(reader: Reader) -> None:
    found = await reader.column("SELECT id FROM range(0, 1000000, 1, 97) WHERE id % 100000 = 7")
    assert found == [7 + 100_000 * n for n in range(10)]


@pytest.mark.turns
@pytest.mark.parametrize(("count", "partitions"), [(1_700_000, 1), (5_400_000, 3)])
async def test_partitions_too_large_to_hold_are_relayed_in_order(reader: Reader, count: int, partitions: int) -> None:
    result = await reader.table(f"SELECT id, -id FROM range(0, {count}, 1, {partitions})")
    assert np.array_equal(result.column(0).to_numpy(), np.arange(count))
    assert np.array_equal(result.column(1).to_numpy(), -np.arange(count))


async def test_jobs_tell_their_statement(engine: SparkEngine, reader: Reader) -> None:
    engine.describe("told-1", "amy: SELECT 1")
    await reader.table("SELECT count(*) FROM range(10)", tag="told-1")
    await reader.table("SELECT count(*) FROM range(10)", tag="told-2")
    engine.describe("told-1", "")
    await reader.table("SELECT count(*) FROM range(10)", tag="told-1")
    assert engine._spark is not None
    jobs = engine._spark.jvm.context.statusStore().jobsList(None)
    described = (jobs.apply(place).description() for place in range(jobs.size()))
    told = {each.get() for each in described if each.isDefined() and each.get().startswith("told-")}
    assert told == {"told-1 amy: SELECT 1", "told-2", "told-1"}


@pytest.mark.soak
async def test_wide_computed_strings_fit_a_small_jvm(lake_path: Path) -> None:
    """Spark's guess of a string's size is twenty bytes; 800 MB of them come through a JVM of 512 MB, in order."""
    small = SparkEngine(str(lake_path), EngineSettings(url="local[2]", driver_memory="512m"))
    try:
        numbers = "range(0, 200000, 1, {})"
        for partitions in (1, 8):
            sql = f"SELECT id, rpad(cast(id AS STRING), 4000, 'y') AS t FROM {numbers.format(partitions)}"
            count, length = 0, 0
            async with await small.stream(query(sql), "wide") as rows_of:
                async for batch in rows_of:
                    assert batch.nbytes < 8 * 2**20
                    assert batch.column(0)[0].as_py() == count
                    assert batch.column(1)[0].as_py().startswith(f"{count}y")
                    count += batch.num_rows
                    length += pc.sum(pc.binary_length(batch.column(1))).as_py()
            assert (count, length) == (200_000, 4000 * 200_000)
    finally:
        await small.stop()


@pytest.mark.turns
async def test_rows_that_become_wide_are_whole(reader: Reader) -> None:
    """Of width nothing is known at first, and it changes later: from one byte to 4000 and back."""
    width = "CASE WHEN id BETWEEN 150000 AND 190000 THEN 4000 ELSE 1 END"
    result = await reader.table(f"SELECT id, repeat('y', {width}) AS t FROM range(0, 300000, 1, 30)")
    assert np.array_equal(result.column(0).to_numpy(), np.arange(300_000))
    assert pc.sum(pc.binary_length(result.column(1))).as_py() == 4000 * 40_001 + 259_999


async def test_a_failure_while_a_result_is_relayed_is_told(reader: Reader) -> None:
    with pytest.raises(SluiceError, match="division by zero"):
        await reader.table("SELECT id / (id - 1999999) FROM range(0, 2000000, 1, 1)")


async def test_the_schema_comes_before_the_rows(engine: SparkEngine) -> None:
    sql = "SELECT 1 AS a, 'x' AS b, CAST(NULL AS TIMESTAMP_LTZ) AS c WHERE false"
    async with await engine.stream(query(sql), "q") as got:
        assert got.schema.names == ["a", "b", "c"]
        assert got.schema.types == [pa.int32(), pa.string(), pa.timestamp("us", "UTC")]
        assert [batch async for batch in got] == []


async def test_columns_may_have_one_name(reader: Reader) -> None:
    result = await reader.table("SELECT 1 AS a, 2 AS a")
    assert [column.to_pylist() for column in result.columns] == [[1], [2]]


async def test_each_statement_has_its_own_time_zone(reader: Reader) -> None:
    sql = "SELECT CAST(timestamp_seconds(id) AS STRING) FROM range(0, 40000, 20000, 2)"
    zones = ["UTC", "Europe/Berlin", "Asia/Tokyo", "+05:30"] * 3
    found = await asyncio.gather(*(reader.column(sql, time_zone=zone) for zone in zones))
    expected = [
        ["1970-01-01 00:00:00", "1970-01-01 05:33:20"],
        ["1970-01-01 01:00:00", "1970-01-01 06:33:20"],
        ["1970-01-01 09:00:00", "1970-01-01 14:33:20"],
        ["1970-01-01 05:30:00", "1970-01-01 11:03:20"],
    ]
    assert found == expected * 3


@pytest.mark.turns
@pytest.mark.parametrize("sql", ["SELECT 1 / 0", "SELECT 1 / (id - 3) FROM range(10)"])
async def test_errors_are_sluice_errors(reader: Reader, sql: str) -> None:
    with pytest.raises(SluiceError, match=r"^division by zero$") as caught:
        await reader.table(sql)
    assert caught.value.sqlstate == "22012"


async def test_cancel_stops_that_statement_alone(engine: SparkEngine, reader: Reader) -> None:
    victim = asyncio.create_task(reader.table(_ENDLESS, tag="victim"))
    other = asyncio.create_task(reader.column(
        "SELECT sum(id % 7) FROM range(30000000) WHERE hash(id) % 2 = 0 OR true"
    ))  # fmt: skip
    await asyncio.sleep(1)
    began = time.monotonic()
    engine.cancel("victim")
    with pytest.raises(SluiceError, match="canceling statement due to user request") as caught:
        await victim
    assert caught.value.sqlstate == "57014"
    assert time.monotonic() - began < 30
    assert await other == [sum(n % 7 for n in range(7)) * (30_000_000 // 7) + sum(range(30_000_000 % 7))]


async def test_rows_that_a_running_statement_has_read_are_counted(
    engine: SparkEngine, reader: Reader, large: TableVersion
) -> None:
    """It reads all rows, and has not ended for years."""
    groups = "(SELECT c1 % 10 AS k, count(*) AS n FROM t GROUP BY c1 % 10)"
    sql = f"SELECT count(*) FROM {groups} JOIN range(1000000000000) AS r ON hash(k, r.id) % 2 = 3"
    running = asyncio.create_task(reader.table(sql, scan(large), tag="reading"))
    for _ in range(300):
        if found := await engine.rows_read("reading"):
            break
        await asyncio.sleep(0.2)
    assert 0 < found <= 1_000_000
    engine.cancel("reading")
    with pytest.raises(SluiceError, match="canceling statement"):
        await running


async def test_a_short_query_does_not_wait_for_all_tasks_of_a_long_one(engine: SparkEngine, reader: Reader) -> None:
    """Both are of more tasks than there are cores; the long one's would take hours."""
    many = "SELECT count(*) FROM range(0, 1000000000000, 1, 20000) WHERE hash(id) % 2 = 3"
    long = asyncio.create_task(reader.table(many, tag="long"))
    await asyncio.sleep(1)
    assert await reader.column("SELECT count(*) FROM range(0, 1000, 1, 10)") == [1000]
    assert not long.done()
    engine.cancel("long")
    with pytest.raises(SluiceError, match="canceling statement"):
        await long


async def test_cancel_of_what_does_not_run_is_nothing(engine: SparkEngine, reader: Reader) -> None:
    engine.cancel("nobody")
    assert await reader.column("SELECT 1") == [1]


async def test_a_cancelled_task_stops_its_statement(engine: SparkEngine, reader: Reader) -> None:
    task = asyncio.create_task(engine.explain(query("SELECT 1"), "x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await reader.column("SELECT 1") == [1]


# Spark analyses lambdas that nest as deep for seconds, and looks for no cancel meanwhile.
def _nested(times: int) -> str:
    return f"SELECT {'transform(array(' * times}id{'), v -> v + 1)[0]' * times} FROM range(2)"


@pytest.fixture(scope="module")
def nested(engine: SparkEngine) -> str:
    """Spark analyses it for two seconds or more on this machine, when it has analysed others."""
    times = 100
    while True:
        for _ in range(2):
            began = time.monotonic()
            asyncio.run(engine.explain(query(_nested(times)), "nested"))
        if time.monotonic() - began > 2:
            return _nested(times)
        times += 40


def _stopped(engine: SparkEngine) -> int:
    return sum(statement.failure is not None for statement in engine._running.all())


async def _until_stopped_end(engine: SparkEngine) -> None:
    while _stopped(engine):  # noqa: ASYNC110  threads end them
        await asyncio.sleep(0.05)


@pytest.mark.turns
@pytest.mark.parametrize("asked", ["rows", "plan"])
async def test_a_cancel_is_answered_while_spark_analyses(
    engine: SparkEngine, reader: Reader, nested: str, asked: str
) -> None:
    """And what the session asks next waits, where others do not."""
    tag = "role/session"
    task = asyncio.ensure_future(
        reader.table(nested, tag=tag) if asked == "rows" else engine.explain(query(nested), tag)
    )
    await asyncio.sleep(0.1)
    began = time.monotonic()
    engine.cancel(tag)
    with pytest.raises(SluiceError, match="canceling statement due to user request"):
        await task
    assert time.monotonic() - began < 5
    assert _stopped(engine) == 1, "it was answered when Spark had analysed"
    assert await reader.column("SELECT 1", tag="role/another session") == [1]
    assert _stopped(engine) == 1, "the machine analyses faster than the test expects"
    assert await reader.column("SELECT 2", tag="role/session/cursor") == [2]
    assert _stopped(engine) == 0


@pytest.mark.turns
async def test_a_role_has_few_stopped_statements(engine: SparkEngine, reader: Reader, nested: str) -> None:
    for number in range(8):
        task = asyncio.ensure_future(reader.table(nested, tag=f"role/{number}"))
        await asyncio.sleep(0.1)
        engine.cancel(f"role/{number}")
        with pytest.raises(SluiceError, match="canceling statement due to user request"):
            await task
    assert _stopped(engine) == 8, "the machine analyses faster than the test expects"
    assert await reader.column("SELECT 1", tag="another role/1") == [1]
    assert _stopped(engine) == 8
    assert await reader.column("SELECT 1", tag="role/9") == [1]
    assert _stopped(engine) < 8
    await _until_stopped_end(engine)


@pytest.mark.turns
async def test_a_statement_that_waits_for_a_stopped_one_is_cancelled(
    engine: SparkEngine, reader: Reader, nested: str
) -> None:
    first = asyncio.create_task(reader.table(nested, tag="role/session"))
    await asyncio.sleep(0.1)
    engine.cancel("role/session")
    with pytest.raises(SluiceError, match="canceling statement"):
        await first
    second = asyncio.create_task(reader.table("SELECT 1", tag="role/session"))
    await asyncio.sleep(0.1)
    assert not second.done()
    engine.cancel("role/session")
    with pytest.raises(SluiceError, match="canceling statement"):
        await second
    await _until_stopped_end(engine)


async def test_statements_without_a_thread_are_cancelled(engine: SparkEngine, large: TableVersion) -> None:
    """All threads of the engine are busy; a cancel of what waits for one is answered at once."""
    free = threading.Event()
    busy = [engine._workers.submit(free.wait, 60) for _ in range(_THREADS)]
    try:
        read = asyncio.create_task(engine.stream(query("SELECT 1"), "read"))
        insert = RunnableInsert(query("SELECT * FROM t", scan(large)), large.table)
        written = asyncio.create_task(engine.insert(insert, "written"))
        await asyncio.sleep(0.1)
        for tag, task in (("read", read), ("written", written)):
            engine.cancel(tag)
            with pytest.raises(SluiceError, match="canceling statement due to user request"):
                await asyncio.wait_for(task, 5)
        abandoned = asyncio.create_task(engine.insert(insert, "written"))
        await asyncio.sleep(0.1)
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(abandoned, 5)
    finally:
        free.set()
        await asyncio.gather(*map(asyncio.wrap_future, busy))
    await _until_stopped_end(engine)
    assert not engine._running.all()


async def test_closing_early_stops_the_jobs(engine: SparkEngine, large: TableVersion) -> None:
    rows_of = await engine.stream(query("SELECT * FROM t CROSS JOIN range(1000)", scan(large)), "early")
    async for batch in rows_of:
        assert batch.num_rows > 0
        break
    began = time.monotonic()
    await rows_of.close()
    await rows_of.close()
    assert time.monotonic() - began < 30
    assert not engine._running.all()


def _resident_bytes() -> int:
    """Of this process's memory, what is in the machine's (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.turns
async def test_nobody_reading_stops_the_producer(engine: SparkEngine, large: TableVersion) -> None:
    """A result of 40 GB whose reader sleeps: neither this process nor the JVM may grow with it."""
    gc.collect()
    rows_of = await engine.stream(query("SELECT t.*, id FROM t CROSS JOIN range(1000)", scan(large)), "slow")
    seen = 0
    before = _resident_bytes()
    async for batch in rows_of:
        seen += batch.num_rows
        if seen > 200_000:
            break
    await asyncio.sleep(2)
    assert _resident_bytes() - before < 100 * 2**20
    await rows_of.close()


async def test_explain_shows_the_plan_and_runs_nothing(engine: SparkEngine, large: TableVersion) -> None:
    plan = await engine.explain(query("SELECT count(*), sum(1 / (c1 - 5)) FROM t WHERE c1 < 7", scan(large)), "explain")
    assert "HashAggregate" in plan
    assert "parquet" in plan.lower()


async def test_a_killed_jvm_is_replaced(lake_path: Path, large: TableVersion) -> None:
    mortal = SparkEngine(str(lake_path), EngineSettings(url="local[1]", driver_memory="512m"))
    reader = Reader(mortal)
    assert await reader.column("SELECT count(*) FROM t", scan(large)) == [1_000_000]
    under_way = asyncio.create_task(reader.table(_ENDLESS))
    await asyncio.sleep(1)
    first = mortal.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(SluiceError, match="Spark process ended unexpectedly") as caught:
        await under_way
    assert caught.value.sqlstate == "57P02"
    assert await reader.column("SELECT count(*) FROM t", scan(large)) == [1_000_000]
    second = mortal.process_id
    assert second is not None
    assert second != first
    os.kill(second, signal.SIGKILL)  # at rest: nobody notices until the next statement
    assert await reader.column("SELECT sum(c1) FROM t", scan(large)) == [499_999_500_000]
    third = mortal.process_id
    assert third is not None
    await mortal.stop()
    assert not running({third})
    with pytest.raises(SluiceError, match="shutting down"):
        await reader.column("SELECT 1")


@pytest.mark.turns
async def test_an_ended_context_is_replaced(lake_path: Path, large: TableVersion) -> None:
    """Spark ends it by itself where one of its own threads has no memory; the process goes on."""
    mortal = SparkEngine(str(lake_path), EngineSettings(url="local[1]", driver_memory="512m"))
    reader = Reader(mortal)
    assert await reader.column("SELECT count(*) FROM t", scan(large)) == [1_000_000]
    under_way = asyncio.create_task(reader.table(_ENDLESS))
    await asyncio.sleep(1)
    first, spark = mortal.process_id, mortal._spark
    assert first is not None
    assert spark is not None
    await asyncio.to_thread(spark.jvm.context.stop)
    with pytest.raises(SluiceError, match="Spark process ended unexpectedly") as caught:
        await under_way
    assert caught.value.sqlstate == "57P02"
    assert await reader.column("SELECT count(*) FROM t", scan(large)) == [1_000_000]
    assert mortal.process_id != first
    await mortal.stop()


@pytest.mark.turns
@pytest.mark.parametrize("home", ["nowhere", None])
async def test_no_java_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    if home is None:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
    engine = SparkEngine(str(tmp_path), EngineSettings(log=tmp_path / "log"))
    with pytest.raises(SluiceError, match=r"^Spark did not start: .*Java.*") as caught:
        await engine.start()
    assert caught.value.sqlstate == "57P03"
    assert "\n" not in caught.value.message
    await engine.stop()


async def test_a_query_of_nothing_has_a_quick_answer(engine: SparkEngine) -> None:
    async with await engine.stream(RunnableQuery("SELECT 1 AS one"), "quick") as got:
        assert [batch.to_pylist() async for batch in got] == [[{"one": 1}]]
