"""The Spark engine: it executes every statement that scans the lake.

One JVM, started by the first statement that needs it, and again after its death or that of its Spark context; a
statement that was running then fails with 57P02. Each statement has a thread, a job group by which it is cancelled, and
a Spark session of its own while it runs. Sessions are pooled. They hold only the statement's time zone (Spark keeps
that per session, and reads it both when a query is analysed and when it runs) and the settings of light queries. Views
of tables are global, so every session sees them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from py4j.java_gateway import JavaObject

from catalog.errors import SluiceError, SqlState
from catalog.model import DataFile, DeleteFile, Table
from storage.parquet import layout
from storage.parquet.files import LakeFiles
from storage.parquet.positions import deleted_positions, merged
from storage.parquet.stored_rows import StoredRows
from storage.plan import RunnableDelete, RunnableInsert, RunnableQuery, RunnableStored, RunnableUpdate
from storage.spark import write
from storage.spark.jvm import EngineSettings, SparkJvm
from storage.spark.result_stream import ResultStream
from storage.spark.results import ArrowRows
from storage.spark.running_statements import RunningStatements
from storage.spark.scan import ScanViews, View
from storage.spark.shuffled_blocks import Shuffle
from storage.spark.small_query import SETTINGS, Weight, weight_of
from storage.spark.spark_errors import from_spark, jvm_died, needless
from storage.spark.statement import Statement, cancelled
from storage.spark.turns import Turns
from storage.spark.write import WriteResult
from storage.spool.batch_channel import Channel, ChannelClosedError
from storage.spool.spill import Spill
from storage.spool.spool_file import KeptFile
from storage.spool.unread_rows import UnreadSpace

__all__ = ["EngineSettings", "SparkEngine"]

_THREADS: Final = 64
_PLAN: Final = pa.schema([("plan", pa.string())])
_T = TypeVar("_T")
_Steps: TypeAlias = Generator[None, None, None]


class _Spark:
    """A JVM with its views and its idle sessions."""

    def __init__(self, settings: EngineSettings, data_path: str) -> None:
        self.jvm = SparkJvm(settings)
        self.views = ScanViews(self.jvm, data_path)
        self.shuffled = settings.shuffled
        self._idle: dict[Weight, list[tuple[JavaObject, str]]] = {weight: [] for weight in Weight}
        self._lock = threading.Lock()

    @contextmanager
    def session(self, time_zone: str, weight: Weight) -> Iterator[JavaObject]:
        """Lend a Spark session for exclusive use."""
        idle = self._idle[weight]
        with self._lock:
            session, set_to = idle.pop() if idle else (None, "")
        if session is None:
            session = self.jvm.session.newSession()
            for name, value in SETTINGS[weight].items():
                session.conf().set(name, value)
        if set_to != time_zone:
            session.conf().set("spark.sql.session.timeZone", time_zone)
        # Plan nodes that are made here rather than by the session's planner belong to the thread's active session.
        self.jvm.view.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        try:
            yield session
        finally:
            with self._lock:
                idle.append((session, time_zone))

    @contextmanager
    def scanned(self, query: RunnableQuery, held: ExitStack, check: Callable[[], None]) -> Iterator[list[View]]:
        """Provide the views of its scans, in order, while it is analysed. See `ScanViews.acquire`."""
        views: list[View] = []
        with ExitStack() as acquired:
            for bound in query.scans:
                view = self.views.acquire(bound, held, check)
                acquired.callback(self.views.release, view.name)
                views.append(view)
            yield views


class SparkEngine:
    """The engine. All coroutines belong to one event loop; Spark's work happens in the engine's own threads."""

    def __init__(self, data_path: str, settings: EngineSettings | None = None) -> None:
        """`data_path` is the lake's DATA_PATH, a local folder or a URL, to which table paths are relative."""
        local = layout.is_local(data_path)
        self._data_path = str(Path(layout.local_path(data_path)).absolute()) if local else data_path
        self._settings = settings or EngineSettings()
        self.unread = KeptFile.space = UnreadSpace(self._settings.unread_folder, self._settings.unread_limit)
        Spill.limit_bytes = self._settings.temp_file_limit
        self._workers = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark")
        # Separate from the workers: a worker waits for these, so they must not wait for workers.
        self._prefetch = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-ahead")
        self._control = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-control")
        self._starting = threading.Lock()
        self._spark: _Spark | None = None
        self._stopped = False
        self._running = RunningStatements()
        self._descriptions: dict[str, str] = {}  # by tag
        self._channels: WeakKeyDictionary[Channel, str] = WeakKeyDictionary()  # with the statements' tags

    @property
    def process_id(self) -> int | None:
        """The JVM's process number, if one runs."""
        spark = self._spark
        return spark.jvm.process_id if spark is not None and spark.jvm.alive else None

    async def start(self) -> None:
        """Start the JVM and warm it up. Optional: the first statement does it. SluiceError 57P03 if it fails."""
        await self._run("start", "UTC", lambda work: work.frame(RunnableQuery("SELECT 1")).collectAsList())

    async def stop(self) -> None:
        """End every statement (57P01), then the JVM; return when it is gone."""
        self._stopped = True
        reason = SluiceError(SqlState.ADMIN_SHUTDOWN, "terminating statement due to shutdown of the gateway")
        loop = asyncio.get_running_loop()
        for statement in self._running.all():
            await loop.run_in_executor(self._control, statement.stop, reason)
        spark, self._spark = self._spark, None
        if spark is not None:
            await loop.run_in_executor(self._control, spark.jvm.stop)
        for executor in (self._workers, self._prefetch, self._control):
            executor.shutdown(wait=False, cancel_futures=True)

    async def stream(self, query: RunnableQuery, tag: str) -> ResultStream:
        """Run a query. Returns when the schema is known (analysis errors are raised here)."""

        def produce(statement: Statement, channel: Channel, know: Callable[[pa.Schema], None]) -> _Steps:
            with self._working(statement, query.time_zone) as work:
                rows = work.rows(work.frame(query))
                know(rows.schema)
                for batch in rows.in_turns(lambda: channel.has_enough):
                    if batch is not None:
                        channel.put(batch)
                    else:
                        yield
                        work.go_on()
                        channel.renew()

        return await self._stream(tag, produce)

    async def stored(self, stored: RunnableStored, tag: str) -> ResultStream:
        """Read columns of a table without Spark; `schema` is that of `storage.parquet.stored_rows.StoredRows`."""

        def produce(statement: Statement, channel: Channel, know: Callable[[pa.Schema], None]) -> _Steps:
            with self._told(statement):
                rows = StoredRows(self._data_path, stored)
                know(rows.schema)
                for batch in rows:
                    statement.check()
                    if batch.num_rows:
                        channel.put(batch)
                    if channel.has_enough:
                        yield
                        channel.renew()
                        statement.check()

        return await self._stream(tag, produce)

    async def _stream(
        self, tag: str, produce: Callable[[Statement, Channel, Callable[[pa.Schema], None]], _Steps]
    ) -> ResultStream:
        """Run a producer of batches in turns; it tells the schema before the first one."""
        self._check_open()
        loop = asyncio.get_running_loop()
        known: asyncio.Future[pa.Schema] = loop.create_future()
        done: asyncio.Future[None] = loop.create_future()
        statement = await self._begun(tag)

        def stop(reason: SluiceError | None = None) -> None:
            self._cancel_soon(statement, reason)

        channel = Channel(self.unread, stop)
        self._channels[channel] = tag

        def steps() -> _Steps:
            try:
                yield from produce(statement, channel, lambda schema: _tell(loop, _resolve, known, schema))
            except ChannelClosedError:
                channel.finish()
            except SluiceError as error:
                _tell(loop, _fail, known, error)
                channel.finish(error, at_once=statement.failure is not None)
            else:
                channel.finish()

        def submit(turn: Callable[[], None]) -> None:
            if statement.failure is None:
                self._workers.submit(turn)
            else:
                turn()  # this only ends it

        turns = Turns(steps(), submit, lambda: _tell(loop, _resolve, done, None))

        def stopped() -> None:
            """Spark's analysis does not look for a cancel, and a thread may not be free: answer at once."""
            _tell(loop, _fail, known, statement.failure)
            turns.go_on()

        statement.stopped, channel.wanted = stopped, turns.go_on
        turns.go_on()

        try:
            schema = await known
        except BaseException:
            channel.close()
            stop()
            raise
        return ResultStream(schema, channel, stop, done)

    async def insert(self, insert: RunnableInsert, tag: str) -> WriteResult:
        """Write the rows as new data files. The catalog publishes them."""
        data_path, threshold = self._data_path, self._settings.spark_writes_from
        return await self._write(
            tag,
            insert.source.time_zone,
            lambda work: write.insert(work, data_path, insert, threshold),
            insert.table.path,
        )

    async def delete(self, delete: RunnableDelete, tag: str) -> WriteResult:
        """Write new delete files."""
        return await self._write(
            tag,
            delete.source.time_zone,
            lambda work: write.delete(work, self._data_path, delete),
            delete.version.table.path,
        )

    async def update(self, update: RunnableUpdate, tag: str) -> WriteResult:
        """Write new delete files and new data files."""
        return await self._write(
            tag,
            update.source.time_zone,
            lambda work: write.update(work, self._data_path, update),
            update.version.table.path,
        )

    async def discard(self, result: WriteResult, table_path: str) -> None:
        """Remove the files of a result that will not be published."""
        await self.remove(result.paths(table_path))

    async def remove(self, paths: Collection[str]) -> None:
        """Remove files by their path below the data path."""
        await asyncio.get_running_loop().run_in_executor(self._control, LakeFiles(self._data_path).remove, list(paths))

    async def merge_deletes(
        self, table: Table, file: DataFile, own: DeleteFile, live: DeleteFile | None, common: int
    ) -> DeleteFile:
        """Write a delete file that replaces `live` and deletes what either of the two does; see
        storage.parquet.positions."""
        return await asyncio.get_running_loop().run_in_executor(
            self._control, merged, LakeFiles(self._data_path), table.path, file, own, live, common
        )

    async def deletes_any(self, table: Table, delete_file: DeleteFile, positions: npt.NDArray[np.int64]) -> bool:
        """Whether a delete file has any of these positions."""

        def look() -> bool:
            deleted = deleted_positions(LakeFiles(self._data_path), table.path, delete_file)
            return bool(np.isin(positions, deleted, assume_unique=True).any())

        return await asyncio.get_running_loop().run_in_executor(self._control, look)

    async def explain(self, query: RunnableQuery, tag: str) -> str:
        """Return Spark's physical plan, as text; runs nothing."""

        def produce(statement: Statement, channel: Channel, know: Callable[[pa.Schema], None]) -> _Steps:
            with self._working(statement, query.time_zone) as work:
                plan = str(work.frame(query).queryExecution().executedPlan().toString())
                know(_PLAN)
                channel.put(pa.record_batch([[plan]], _PLAN))
            yield from ()

        async with await self._stream(tag, produce) as lines:
            return "".join([batch.column(0)[0].as_py() async for batch in lines])

    def describe(self, tag: str, description: str) -> None:
        """Give jobs that run under `tag` from now on a description for Spark's UI; an empty one ends that."""
        if description:
            self._descriptions[tag] = description
        else:
            self._descriptions.pop(tag, None)

    def cancel(self, tag: str) -> None:
        """Stop the statement running under `tag`: it fails with 57014. An unknown tag is no error."""
        for statement in self._running.tagged(tag):
            self._cancel_soon(statement)
        for channel in [channel for channel, its in self._channels.items() if its == tag]:
            channel.cancel(cancelled())

    async def rows_read(self, tag: str) -> int:
        """Return how many rows of files the statement running under `tag` has read so far; 0 if there is none."""
        loop, found = asyncio.get_running_loop(), self._running.tagged(tag)
        return sum([await loop.run_in_executor(self._control, statement.rows_read) for statement in found])

    def _check_open(self) -> None:
        if self._stopped:
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the gateway is shutting down")

    def _cancel_soon(self, statement: Statement, reason: SluiceError | None = None) -> None:
        if not self._stopped:
            self._running.stop(statement, reason)

    async def _begun(self, tag: str) -> Statement:
        """Return a statement that may run, perhaps after stopped ones have ended."""
        statement = Statement(tag, self._descriptions.get(tag, ""))
        await self._running.begin(statement)
        return statement

    async def _write(
        self, tag: str, time_zone: str, work: Callable[[Work], WriteResult], table_path: str
    ) -> WriteResult:
        """Run a statement that writes; if its caller is cancelled, its files are removed."""

        def undo(result: WriteResult) -> None:
            LakeFiles(self._data_path).remove(result.paths(table_path))

        return await self._run(tag, time_zone, work, undo)

    async def _run(
        self, tag: str, time_zone: str, work: Callable[[Work], _T], undo: Callable[[_T], None] | None = None
    ) -> _T:
        """Run `work` in a thread. If the awaiting task is cancelled, cancel the statement too, and wait for it."""
        self._check_open()
        statement = await self._begun(tag)
        queued = self._workers.submit(self._work, statement, time_zone, work)
        statement.stopped = queued.cancel  # which ends it if no thread was free yet
        done = asyncio.wrap_future(queued)
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            self._cancel_soon(statement)
            await asyncio.wait([done])
            if done.cancelled():
                self._running.end(statement)
            elif undo is not None and done.exception() is None:
                await asyncio.get_running_loop().run_in_executor(self._control, undo, done.result())
            raise
        if done.cancelled():
            self._running.end(statement)
            statement.check()
        return done.result()

    def _work(self, statement: Statement, time_zone: str, work: Callable[[Work], _T]) -> _T:
        with self._working(statement, time_zone) as given:
            return work(given)

    @contextmanager
    def _working(self, statement: Statement, time_zone: str) -> Iterator[Work]:
        """Surround a statement's work, and turn its failures into the client's errors."""
        spark: _Spark | None = None
        with self._told(statement):
            try:
                spark = self._ready(statement, time_zone)
                with ExitStack() as held:
                    yield Work(spark, statement, held, time_zone, self._prefetch)
            except Exception as error:
                if statement.failure is None and spark is not None and spark.jvm.is_over(error):
                    raise jvm_died() from error
                raise

    @contextmanager
    def _told(self, statement: Statement) -> Iterator[None]:
        """Turn the statement's failures into the client's errors; note its end."""
        try:
            yield
        except ChannelClosedError:
            statement.stop()
            raise
        except Exception as error:
            if statement.failure is not None:
                raise statement.failure from error
            found = from_spark(error)
            raise (needless(found) if statement.is_eager else found) from error
        finally:
            self._running.end(statement)

    def _ready(self, statement: Statement, time_zone: str) -> _Spark:
        """Return Spark, with the calling thread bound to the statement. Finding a dead JVM here harms no statement."""
        spark = self._started()
        try:
            statement.bind(spark.jvm, time_zone)
        except Exception as error:
            if not spark.jvm.is_over(error):
                raise
            spark = self._started()
            statement.bind(spark.jvm, time_zone)
        return spark

    def _started(self) -> _Spark:
        with self._starting:
            self._check_open()
            if self._spark is not None and not self._spark.jvm.alive:
                self._spark.jvm.stop()
                self._spark = None
            if self._spark is None:
                self._spark = _Spark(self._settings, self._data_path)
            return self._spark


class Work:
    """What a statement's thread works with."""

    def __init__(
        self, spark: _Spark, statement: Statement, held: ExitStack, time_zone: str, prefetch: ThreadPoolExecutor
    ) -> None:
        """`held` has the Spark sessions and the files that stay here until the work is done."""
        self.jvm = spark.jvm
        self.statement = statement
        self._spark = spark
        self._held = held
        self._time_zone = time_zone
        self._prefetch = prefetch
        self._session: JavaObject | None = None

    def go_on(self) -> None:
        """After a pause: bind the present thread to the statement."""
        self.statement.bind(self.jvm, self._time_zone)
        if self._session is not None:
            self.jvm.view.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)

    def frame(self, query: RunnableQuery) -> JavaObject:
        """Return the query, analysed, as a (Java) DataFrame."""
        self.statement.is_eager |= query.is_eager
        with self._spark.scanned(query, self._held, self.statement.check) as views:
            weight = weight_of(query, [view.row_count for view in views])
            self.statement.weigh(self.jvm, weight)
            session = self._held.enter_context(self._spark.session(self._time_zone, weight))
            self._session = session
            rows = _as_they_are
            if self._spark.shuffled is not None:
                shuffle = Shuffle.of(self._spark.shuffled, query.sql)
                for name, value in shuffle.settings.items():
                    session.conf().set(name, value)
                rows = shuffle.rows
            parts = [
                f"{_quoted(bound.scan.name)} AS ({rows(f'global_temp.{view.name}')})"
                for bound, view in zip(query.scans, views, strict=True)
            ]
            return session.sql(f"WITH {', '.join(parts)} ({query.sql}\n)" if parts else query.sql)

    def rows(self, frame: JavaObject) -> ArrowRows:
        """Return the rows of an analysed query."""
        return ArrowRows(self.jvm, self.statement, frame, self._time_zone, self._prefetch)


def _as_they_are(relation: str) -> str:
    return f"SELECT * FROM {relation}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _tell(loop: asyncio.AbstractEventLoop, told: Callable[..., None], *arguments: object) -> None:
    # RuntimeError: the loop is closed, so there is no waiter.
    if not loop.is_closed():
        loop.call_soon_threadsafe(told, *arguments)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
