"""The rows of a DataFrame as Arrow record batches: in order, while they are made, in bounded memory.

Spark turns each partition into Arrow batches (`Dataset.toArrowBatchRdd`). There are several ways to return them.
Measured with 5 million rows of 3 columns (bigint, double, text) on two cores, warm, best of three (the last row through
the whole engine, and 2.3 s of processor time in the JVM, 0.2 s here):

| way | M rows/s | order | memory of the JVM | backpressure |
|---|---|---|---|---|
| `collectAsArrowToPython` | 3.8 | given afterwards | the whole result | none: a slow reader would hold the scheduler |
| `toLocalIterator`, one job per partition | 2.3 | kept | one partition | yes |
| the same with prefetch | 3.5 | kept | two partitions | yes |
| **windows of partitions, with prefetch** | 3.3 | kept | two windows | yes |

So one job runs a *window* of consecutive partitions, as wide as there are cores at first. While its rows are read from
a socket, the next window runs. A window with few rows makes the next one wider, so a selective scan of many partitions
soon uses the whole cluster; a window with many makes it narrower. If nothing reads, the socket fills, the JVM waits,
and no further job starts. A consumer that takes the rows in turns (`in_turns`) can pause between two jobs, when Spark
holds nothing of the result. A LIMIT without ORDER BY stops at the window that has rows enough.

A job's rows are in the JVM until they are read. So a window with too many rows (a cross join in one partition) is given
up before any of them was seen, and its partitions are streamed by `storage.spark.partition_stream`. The limit depends
on the width of rows (`storage.spark.batch_widths`) and on the heap that other results have
(`storage.spark.heap_share`). While the width is unknown, the first window has few rows, which teach it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.serializers import read_int
from pyspark.util import local_connect_and_auth

from storage.spark.batch_widths import FIRST_BATCHES, Widths
from storage.spark.jvm import SparkJvm
from storage.spark.partition_stream import relayed
from storage.spark.statement import Statement

_WIDER_BELOW_BYTES: Final = 4 * 2**20
_NARROWER_ABOVE_BYTES: Final = 64 * 2**20
_WIDER_BY: Final = 4
# Py4J holds the rows that it returns several times in memory: at most so many batches, and so many rows before their
# width is known.
_HANDED_BATCHES_MAX: Final = 2
_FIRST_HANDED_ROWS: Final = 20
# Bytes of the JVM's memory: Py4J handles more in calls that keep the interpreter from the event loop's thread.
_HANDED_BYTES_MAX: Final = 2**20


class _Window:
    """The rows of one job, waiting in the JVM behind a socket."""

    def __init__(self, served: Sequence[Any], closed: Callable[[], None]) -> None:
        """`closed` is called when the rows are gone."""
        self._closed = closed
        port, secret, self._server = served
        self._stream, connection = local_connect_and_auth(port, secret)
        connection.settimeout(None)
        connection.close()  # the stream keeps the connection open

    def messages(self) -> Iterator[bytes]:
        """Yield the framed messages of PySpark's socket protocol.

        The end of the stream looks like the death of the JVM, so the server is asked whether it got to the end.
        """
        while True:
            try:
                length = read_int(self._stream)  # type: ignore[no-untyped-call]
            except EOFError:
                break
            if length < 0:
                break
            message = self._stream.read(length)
            if len(message) < length:
                break
            yield message
        self._server.getResult()

    def close(self) -> None:
        if not self._stream.closed:
            self._stream.close()
            self._closed()


class _Handed:
    """The rows of one job of a light query: so few that Py4J returns them, without a socket."""

    def __init__(self, found: Any, count: int) -> None:
        self._found = found
        self._count = count

    def messages(self) -> Iterator[bytes]:
        return (bytes(self._found[number]) for number in range(self._count))

    def close(self) -> None:
        """Do nothing."""


class _Size(NamedTuple):
    """The limits of a window: its batches, the bytes of each, and how many of its tasks may have that many at once.

    `looks`: the window is to teach how wide rows are, and is read again if it has more.
    """

    batches: int
    batch_bytes: int
    tasks: int
    looks: bool

    @property
    def bytes_max(self) -> int:
        """The heap that the batches take, if all are there."""
        return self.batches * self.batch_bytes * self.tasks

    def within(self, taken: int) -> int:
        """Return how many batches may be in so much of the heap; some are always allowed."""
        return max(taken // (self.batch_bytes * self.tasks), FIRST_BATCHES)


class _TooMany(NamedTuple):
    """A window that had more batches than allowed; `window` has some of them, if it was to be looked at."""

    window: _Window | _Handed | None


class _Ahead(NamedTuple):
    """The window up to `end`, whose job was started ahead of its turn."""

    end: int
    window: Future[_Window | _Handed | _TooMany]


def arrow_schema_of(jvm: SparkJvm, frame: JavaObject) -> pa.Schema:
    """Return the Arrow schema of the batches of a (Java) DataFrame."""
    arrow = jvm.view.org.apache.spark.sql.util.ArrowUtils
    message = arrow.toArrowSchema(frame.schema(), "UTC", False, False, False).serializeAsMessage()
    return pa.ipc.read_schema(pa.py_buffer(message))


class ArrowRows:
    """The batches of a (Java) DataFrame. Iterate once; the thread must be bound to the statement."""

    def __init__(
        self, jvm: SparkJvm, statement: Statement, frame: JavaObject, time_zone: str, prefetch: Executor
    ) -> None:
        """Plan the query; the job after the present one runs in `prefetch`."""
        self._jvm = jvm
        self._statement = statement
        self._frame = frame
        self._time_zone = time_zone
        self._prefetch = prefetch
        self.schema = arrow_schema_of(jvm, frame)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (batch for batch in self.in_turns(lambda: False) if batch is not None)

    def in_turns(self, has_enough: Callable[[], bool]) -> Iterator[pa.RecordBatch | None]:
        """Yield the batches, and None at a pause: nothing of the result is in Spark, and the consumer `has_enough`.

        It may go on later, in another thread that is bound to the statement.
        """
        self._has_enough = has_enough
        plan = self._frame.queryExecution().executedPlan()
        kind = plan.getClass().getSimpleName()
        limit = _plain_limit(plan, kind)
        if limit is not None:
            plan = self._jvm.view.org.apache.spark.sql.execution.LocalLimitExec(limit, plan.child())
        schema = plan.schema()
        self._plan = plan
        self._widths = Widths(self.schema, int(schema.defaultSize()), self._jvm.parallelism)
        if kind == "LocalTableScanExec" and self._statement.is_light and self._is_small(rows := plan.rows()):
            return self._planned(rows, schema)
        batches = self._batches()
        count = self._count = int(batches.getNumPartitions())
        rows = self._windows(batches, count, ahead=limit is None)
        return rows if limit is None else _first(rows, limit)

    def _planned(self, rows: JavaObject, schema: JavaObject) -> Generator[pa.RecordBatch, None, None]:
        """Yield the few rows that Spark has computed while it planned, without a job."""
        converter = getattr(self._jvm.view.org.apache.spark.sql.execution.arrow, "ArrowConverters$ArrowBatchIterator")
        left = rows.iterator()
        count = min(_FIRST_HANDED_ROWS, self._widths.rows)
        while left.hasNext():
            made = converter(left, schema, count, self._time_zone, False, False, None)
            try:
                message = bytes(made.next())
            finally:
                made.close()
            yield self._batch(message)
            self._statement.check()
            self._widths.changed()
            count = self._widths.rows

    def _batches(self) -> JavaObject:
        """Return the plan as an RDD of batches. Its shuffles and broadcasts that exist are not computed again."""
        self._frame.sparkSession().conf().set("spark.sql.execution.arrow.maxRecordsPerBatch", str(self._widths.rows))
        return self._frame.toArrowBatchRdd(self._plan)

    def _windows(self, batches: JavaObject, count: int, *, ahead: bool) -> Generator[pa.RecordBatch | None, None, None]:
        """Run the partitions window by window; `ahead`: the next job starts before the present one's rows are read."""
        width = self._jvm.parallelism if ahead else 1
        position = 0
        following: _Ahead | None = None
        try:
            while position < count:
                if following is None:
                    yield from self._pauses()
                    end = min(position + width, count)
                    window = self._run(batches, position, end, self._size(end - position))
                else:
                    end, window = following.end, following.window.result()
                following = None
                if isinstance(window, _TooMany):
                    if window.window is not None:
                        self._look_at(window.window)
                        if self._widths.changed():
                            batches = self._batches()
                        continue
                    if end - position > self._jvm.parallelism:
                        width = self._jvm.parallelism
                        continue
                    position = yield from self._relayed(batches, position, count)
                    continue
                position = end
                if ahead and position < count and not self._has_enough():
                    end = min(position + width, count)
                    allowed = self._size(end - position)
                    job = self._prefetch.submit(self._run_elsewhere, batches, position, end, allowed)
                    following = _Ahead(end, job)
                size = 0
                with closing(window):
                    for message in window.messages():
                        size += len(message)
                        yield self._batch(message)
                self._statement.check()
                width = _next_width(width, size, self._jvm.parallelism)
                if self._widths.changed():
                    batches = self._batches()
        finally:
            if following is not None:
                following.window.add_done_callback(_close_result)

    def _size(self, partitions: int) -> _Size:
        widths = self._widths
        tasks = min(partitions, self._jvm.parallelism)
        return _Size(widths.window_batches(partitions), widths.batch_bytes, tasks, not widths.known)

    def _look_at(self, window: _Window | _Handed) -> None:
        """Learn from rows that are read again."""
        with closing(window):
            for message in window.messages():
                self._batch(message)

    def _pauses(self) -> Iterator[None]:
        while self._has_enough():
            yield None

    def _relayed(self, batches: JavaObject, position: int, count: int) -> Generator[pa.RecordBatch | None, None, int]:
        """Relay partitions from `position` on until one is small again; return the next position."""
        is_small = False
        while position < count and not is_small:
            yield from self._pauses()
            relayed_batches = 0
            partition = self._pruned(batches, position, position + 1)
            with closing(relayed(self._jvm, partition, self._prefetch, self._bind)) as messages:
                for message in messages:
                    relayed_batches += 1
                    yield self._batch(message)
            self._statement.check()
            position += 1
            parallelism = self._jvm.parallelism
            size = self._size(parallelism)
            is_small = relayed_batches < size.within(self._jvm.heap_share.offered(size.bytes_max)) // parallelism
        return position

    def _batch(self, message: bytes) -> pa.RecordBatch:
        batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), self.schema)
        self._widths.learn(batch)
        return batch

    def _bind(self) -> None:
        self._statement.bind(self._jvm, self._time_zone)

    def _run_elsewhere(self, batches: JavaObject, start: int, end: int, allowed: _Size) -> _Window | _Handed | _TooMany:
        self._bind()
        return self._run(batches, start, end, allowed)

    def _run(self, batches: JavaObject, start: int, end: int, allowed: _Size) -> _Window | _Handed | _TooMany:
        """Run one job over partitions [start, end); its rows are in the JVM when it returns, unless they are too many.

        `take` stops each task at that number, and since `spark.rdd.limit.initialNumPartitions` is large it is one job.
        """
        self._statement.check()
        share = self._jvm.heap_share
        if allowed.looks:
            return self._run_within(batches, start, end, allowed, _nothing)
        taken = share.take(allowed.bytes_max)
        allowed = allowed._replace(batches=allowed.within(taken))
        found: _Window | _Handed | _TooMany | None = None
        try:
            found = self._run_within(batches, start, end, allowed, partial(share.give_back, taken))
        finally:
            if not isinstance(found, _Window):
                share.give_back(taken)
        return found

    def _run_within(
        self, batches: JavaObject, start: int, end: int, allowed: _Size, closed: Callable[[], None]
    ) -> _Window | _Handed | _TooMany:
        try:
            found = self._pruned(batches, start, end).toJavaRDD().take(allowed.batches)
        except Py4JJavaError as error:
            if "spark.driver.maxResultSize" in str(error.java_exception.getMessage()):
                return _TooMany(None)
            raise
        count = len(found)
        is_whole = count < allowed.batches
        if not is_whole and not allowed.looks:
            return _TooMany(None)
        if self._statement.is_light and count <= _HANDED_BATCHES_MAX and self._is_small(found):
            handed = _Handed(found, count)
            return handed if is_whole else _TooMany(handed)
        served = self._jvm.view.scala.jdk.javaapi.CollectionConverters.asScala(found.iterator())
        window = _Window(self._jvm.view.PythonRDD.serveIterator(served, "serve rows"), closed)
        return window if is_whole else _TooMany(window)

    def _is_small(self, found: JavaObject) -> bool:
        """Whether Py4J may return what is in this collection."""
        return int(self._jvm.view.org.apache.spark.util.SizeEstimator.estimate(found)) <= _HANDED_BYTES_MAX

    def _pruned(self, batches: JavaObject, start: int, end: int) -> JavaObject:
        """Return the partitions [start, end) of an RDD. A Scala set is the function that tells what is in it."""
        if end - start == self._count:
            return batches
        view = self._jvm.view
        streams = view.java.util.stream
        numbers = streams.IntStream.range(start, end).boxed().collect(streams.Collectors.toSet())
        chosen = view.scala.jdk.javaapi.CollectionConverters.asScala(numbers).toSet()
        return view.org.apache.spark.rdd.PartitionPruningRDD.create(batches, chosen)


def _nothing() -> None:
    return


def _plain_limit(plan: JavaObject, kind: str) -> int | None:
    """Return the N of a query that ends in LIMIT N with neither order nor offset."""
    if kind != "CollectLimitExec" or plan.offset() != 0 or plan.limit() < 0:
        return None
    return int(plan.limit())


def _first(rows: Generator[pa.RecordBatch | None, None, None], limit: int) -> Iterator[pa.RecordBatch | None]:
    with closing(rows):
        for batch in rows:
            if batch is None:
                yield None
                continue
            yield batch.slice(0, limit)
            limit -= batch.num_rows
            if limit <= 0:
                return


def _next_width(width: int, size: int, parallelism: int) -> int:
    if size < _WIDER_BELOW_BYTES:
        return width * _WIDER_BY
    if size > _NARROWER_ABOVE_BYTES:
        return max(parallelism, width // 2)
    return max(width, parallelism)


def _close_result(future: Future[_Window | _Handed | _TooMany]) -> None:
    if not future.cancelled() and future.exception() is None:
        found = future.result()
        window = found.window if isinstance(found, _TooMany) else found
        if window is not None:
            window.close()
