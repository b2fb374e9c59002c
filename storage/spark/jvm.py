"""The JVM of Spark: a child process that ends with this one.

PySpark's launcher is used as it is. Of PySpark's Python classes only the gateway to the JVM is used: their class-level
singletons cannot get a second JVM after the first was killed. The child reads a pipe that this process holds, and exits
when the pipe closes. So it ends with its parent, however that ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.conf import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from catalog.errors import SluiceError, SqlState
from storage.parquet import object_store
from storage.parquet.object_store import StoreSettings
from storage.spark.class_archive import archive_path
from storage.spark.heap_share import HeapShare
from storage.spark.java_names import JavaNames
from storage.spark.spark_conf import chosen_settings
from storage.spool.spill import TEMP_FILE_LIMIT_BYTES
from storage.spool.unread_rows import LIMIT_BYTES

# The number of simultaneous results so large that each of their tasks keeps its slot while rows come
# (storage.spark.partition_stream).
RELAYS: Final = 4
_STOP_SECONDS_MAX: Final = 10.0
_DEATH_SECONDS_MAX: Final = 0.5
_LOG_TAIL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine's settings. `url` is Spark's master ("local[*]", "spark://host:7077").

    `log` receives the JVM's output (None drops it). `scratch` is the folder of shuffle and spill files (None: a
    temporary one). With `ui`, Spark shows its jobs on a port of its own. `spark` are the user's settings of Spark, by
    name (see `storage.spark.spark_conf`). Spark's tasks write an INSERT of `spark_writes_from` bytes or more, by
    Spark's estimate; this process writes smaller ones (see `storage.spark.write`). Unread rows of clients take at most
    `unread_limit` bytes of disk, in `unread_folder` (see `storage.spool.unread_rows`); rows kept until the end of one
    statement, `temp_file_limit` (see `storage.spool.spill`). `shuffled` is the seed of shuffled blocks (see
    `storage.spark.shuffled_blocks`), None for none. `store` is the object store that has the lake, None for a folder.
    """

    url: str = "local[*]"
    driver_memory: str = "2g"
    log: Path | None = None
    scratch: Path | None = None
    ui: bool = False
    spark_writes_from: int = 256 * 2**20
    spark: Mapping[str, str] | None = None
    shuffled: int | None = None
    unread_folder: Path | None = None
    unread_limit: int = LIMIT_BYTES
    temp_file_limit: int = TEMP_FILE_LIMIT_BYTES
    store: StoreSettings | None = None


# A plan nests as deeply as its SQL, and Spark recurses into it in the planner and in tasks. The stack's memory is only
# taken when used.
_STACK: Final = "-Xss128m"
# The settings of every session. Those under spark.sql decide what SQL means and are part of the planner's contract.
_SETTINGS: Final[dict[str, str]] = {
    "spark.app.name": "sluice",
    # The page of jobs does not end them: PostgreSQL's rights decide about that.
    "spark.ui.killEnabled": "false",
    # Hadoop gives its files and folders modes of its own, whatever the process's umask is.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.driver.maxResultSize": "1g",
    "spark.rdd.limit.initialNumPartitions": "1000000",  # see storage.spark.results
    "spark.driver.extraJavaOptions": f"{_STACK} -XX:+UseParallelGC -Duser.timezone=UTC -Djava.awt.headless=true",
    "spark.executor.extraJavaOptions": f"{_STACK} -Duser.timezone=UTC",
    "spark.cleaner.periodicGC.interval": "5min",  # finished statements' shuffle files are removed with their objects
    # Spark's default for such a heap is pages of 16 MB, and each sort, join and aggregate of a few rows takes one.
    "spark.buffer.pageSize": "1m",
    # A statement of a few tasks does not wait until the last task of a long one has begun (storage/spark/statement.py).
    "spark.scheduler.mode": "FAIR",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.variable.substitute": "false",  # ${…} in a client's text must not read a setting of the JVM's
    "spark.sql.analyzer.maxIterations": "10000",  # one for each WITH query that reads the one before it
    # The parser otherwise keeps what it learned of every text that it has read, until the heap is full.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushRatio": "25",  # percent of the heap
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.timeType.enabled": "true",
    # Conditions reach Parquet with dates and times as they are. Java's older classes move those of before 1582-10-15.
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # PostgreSQL's limit on recursion is the machine's, not a number.
    "spark.sql.cteRecursionLevelLimit": "-1",
    "spark.sql.cteRecursionRowLimit": "-1",
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # Row groups are skipped by bounds. To look into dictionaries, too, is to read a column of many values twice.
    "spark.hadoop.parquet.filter.dictionary.enabled": "false",
    # Spark reads one field of a struct by its name, not by its ID, as NULL.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}


def spark_settings(settings: EngineSettings, scratch: Path) -> dict[str, str]:
    """Return every Spark setting, by name. 22023 if the user's settings choose one that is not theirs."""
    chosen = {
        **_SETTINGS,
        "spark.master": settings.url,
        "spark.driver.memory": settings.driver_memory,
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.local.dir": str(scratch),
        # Looking up any name makes the folder of Spark's own tables, by default where the gateway was started.
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    if settings.url.startswith("local"):
        cores = _local_cores(settings.url)
        chosen["spark.master"] = f"local[{cores + RELAYS}]"
        chosen["spark.default.parallelism"] = str(cores)
        chosen["spark.sql.shuffle.partitions"] = str(2 * cores)
        chosen["spark.driver.host"] = chosen["spark.driver.bindAddress"] = "127.0.0.1"
        chosen["spark.task.maxFailures"] = "1"  # no worker can be lost, and a fault of the data stays one
    if settings.store is not None and settings.store.spark_reads:
        chosen.update(object_store.spark_settings(settings.store))
    elif settings.store is not None and not settings.url.startswith("local"):
        raise SluiceError(
            SqlState.INVALID_PARAMETER_VALUE,
            "a cluster reads an object store itself, and needs Hadoop's file system for it",
            hint="Add --spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:3.5.0.",
        )
    return {**chosen, **chosen_settings((settings.spark or {}).items(), chosen)}


def check_settings(settings: EngineSettings) -> None:
    """Raise 22023 if Spark would not start with these settings."""
    spark_settings(settings, Path())


def _local_cores(url: str) -> int:
    """Return the number of cores that a master "local", "local[N]" or "local[*]" names."""
    count = url.removeprefix("local").strip("[]")
    return (os.cpu_count() or 1) if count == "*" else int(count or 1)


class SparkJvm:
    """A running JVM with a Spark context: `view` names Java classes, `context` is the SparkContext, `session` its root.

    Calls go through Py4J: each Python thread has a Java thread of its own, whose local properties (job group, settings)
    are therefore the Python thread's.
    """

    def __init__(self, settings: EngineSettings) -> None:
        """Start it, in some seconds. 57P03 if Java or Spark does not come up."""
        _check_java()
        self.lost = False  # set when it no longer answers
        self._own_scratch = settings.scratch is None
        self.scratch = settings.scratch or Path(tempfile.mkdtemp(prefix="sluice-spark-"))
        self.settings = spark_settings(settings, self.scratch)
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(self.settings.items()))
        if settings.ui and settings.url.startswith("local"):
            # By default the page is open to every machine, shows all statements, and asks for no password.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        archive = archive_path()
        if archive is not None and archive.exists():
            options = conf.get("spark.driver.extraJavaOptions", "")
            conf.set("spark.driver.extraJavaOptions", f"-XX:SharedArchiveFile={archive} {options}")
        try:
            with (settings.log or Path(os.devnull)).open("ab") as log:
                self._gateway: Any = launch_gateway(  # type: ignore[no-untyped-call]
                    conf, {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
                )
        except (PySparkRuntimeError, OSError) as error:
            self._remove_scratch()
            raise _did_not_start(settings.log, error) from error
        self._process: subprocess.Popen[bytes] = self._gateway.proc
        self.view = JavaNames(self._gateway.jvm)
        self.relays = threading.BoundedSemaphore(RELAYS)
        try:
            builder = self.view.org.apache.spark.sql.classic.SparkSession.builder()
            self.session: Any = builder.getOrCreate()
            self.context: Any = self.session.sparkContext()
            self.parallelism = int(self.context.defaultParallelism())
            self.heap_share = HeapShare(int(self.view.java.lang.Runtime.getRuntime().maxMemory()))
            self.relay_host = str(self.context.conf().get("spark.driver.host"))
        except Py4JError as error:
            self.stop()
            raise _did_not_start(settings.log, error) from error

    @property
    def process_id(self) -> int:
        """The JVM's process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs and answers."""
        return not self.lost and self._process.poll() is None

    def is_over(self, error: Exception) -> bool:
        """Whether an error comes from the end of the process, or of Spark's context in it. Blocking."""
        if isinstance(error, Py4JJavaError):
            return self.context_ended()
        return isinstance(error, (Py4JError, EOFError, ConnectionError)) and self.died()

    def died(self) -> bool:
        """Whether a call that failed without an exception of Java's failed because the process is gone.

        Its sockets close some moments before the system counts it as ended. Blocking, half a second at most.
        """
        if not self.lost:
            try:
                self._process.wait(_DEATH_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                return False
            self.lost = True
        return True

    def context_ended(self) -> bool:
        """Whether Spark has ended its context, as it does if its own threads run out of memory.

        Nothing runs in the process any more then, though it answers.
        """
        if not self.lost:
            try:
                self.lost = bool(self.context.isStopped())
            except Py4JNetworkError:
                return self.died()
        return self.lost

    def stop(self, seconds_max: float = _STOP_SECONDS_MAX) -> None:
        """End the process and wait for it; kill it after `seconds_max`. Blocking."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.lost:
            self._process.kill()
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._gateway.shutdown()
        self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self._own_scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)


def _check_java() -> None:
    """Raise 57P03 if Spark's launcher would find no Java: it looks in JAVA_HOME, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin" / "java", os.X_OK):
        reason = f"there is no Java in JAVA_HOME={home}"
    elif not home and shutil.which("java") is None:
        reason = "no Java was found (install Java 17, or set JAVA_HOME)"
    else:
        return
    raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"Spark did not start: {reason}")


def _did_not_start(log: Path | None, error: Exception) -> SluiceError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    hint = None if log is None else f"See the log {log}."
    return SluiceError(SqlState.CANNOT_CONNECT_NOW, f"Spark did not start: {reason}", hint=hint)
