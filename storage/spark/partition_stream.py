"""A partition stream: batches of one partition, sent from its task to this process as they are made.

Spark itself returns a partition whole, so one that explodes (a cross join, a long series) would fill the memory of the
JVM. Here a Python worker of Spark's beside the task sends each batch over TCP as it is made, and waits if it is not
read. The task keeps its slot meanwhile, so there are few relays at a time, and a local Spark has spare slots. The
reader waits for a slow client for a moment only (`storage.spool.batch_channel`), so a relay is soon free again.

On a cluster Spark tries a lost task again, whose new attempt begins with the first batch. It may divide its rows into
other batches, so they are passed on only if none of the lost attempt were.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer

from storage.spark.jvm import SparkJvm
from storage.spark.spark_errors import worker_lost

_ACCEPT_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
_LENGTH: Final = struct.Struct("!i")
# A silent peer is asked after 10 seconds, and counts as lost after 15 more.
_KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
_SECRET_BYTES: Final = 32


def relayed(
    jvm: SparkJvm, partition: JavaObject, executor: Executor, bind: Callable[[], None]
) -> Generator[bytes, None, None]:
    """Yield the elements (bytes) of an RDD of one partition, as they are made.

    The job runs in `executor`, in a thread that calls `bind` first. Its failure is raised here, and 58000 if a worker
    was lost that has sent some of them.
    """
    with _place(jvm, bind), closing(socket.create_server((jvm.relay_host, 0), backlog=4)) as listener:
        host, port = listener.getsockname()[:2]
        secret = secrets.token_bytes(_SECRET_BYTES)
        job = executor.submit(_run, jvm, partition, _sender(host, port, secret), bind)
        passed, is_whole = 0, False
        # Attempts after the one whose rows are passed on are read to their end, because they would wait for that: a
        # fault of theirs is what the client has to know.
        while (connection := _accept(listener, job)) is not None:
            goes_on = passed == 0 and not is_whole
            with closing(connection):
                attempt = _Attempt(connection, listener, job, bind)
                if not hmac.compare_digest(attempt.read(_SECRET_BYTES, goes_on) or b"", secret):
                    continue  # it was lost, or is a stranger's
                while message := attempt.message(goes_on and passed == 0):
                    if goes_on:
                        passed += 1
                        yield message
                is_whole = is_whole or (goes_on and message is not None)
        job.result()
        if not is_whole:
            raise worker_lost() if passed else ConnectionError("Spark ended a result without sending it")


class _Attempt:
    """What one attempt of the task sends. A read gives None if the sender is lost."""

    def __init__(
        self, connection: socket.socket, listener: socket.socket, job: Future[None], check: Callable[[], None]
    ) -> None:
        """`check` is called now and then while nothing comes; it may raise to end the wait."""
        self._connection = connection
        self._job = job
        self._check = check
        self._alone, self._both = select.poll(), select.poll()
        self._alone.register(connection, select.POLLIN)
        self._both.register(connection, select.POLLIN)
        self._both.register(listener, select.POLLIN)

    def message(self, may_change: bool) -> bytes | None:
        """Return the next batch; an empty one at the end. With `may_change`, None too if another attempt waits."""
        length = self.read(_LENGTH.size, may_change)
        return None if length is None else self.read(_LENGTH.unpack(length)[0], may_change)

    def read(self, size: int, may_change: bool) -> bytes | None:
        """Return so many bytes."""
        found = bytearray(size)
        missing = memoryview(found)
        while missing:
            if not self._has_data(may_change):
                return None
            try:
                count = self._connection.recv_into(missing)
            except OSError:
                return None
            if count == 0:
                return None
            missing = missing[count:]
        return bytes(found)

    def _has_data(self, may_change: bool) -> bool:
        poll = self._both if may_change else self._alone
        while True:
            ready = {number for number, _ in poll.poll(_LOOK_SECONDS * 1000)}
            if self._connection.fileno() in ready:
                return True
            if ready or (self._job.done() and self._job.exception() is not None):
                return False
            self._check()


@contextmanager
def _place(jvm: SparkJvm, check: Callable[[], None]) -> Iterator[None]:
    """Take one of the few relays; a waiter checks now and then whether its statement was cancelled."""
    while not jvm.relays.acquire(timeout=_LOOK_SECONDS):
        check()
    try:
        yield
    finally:
        jvm.relays.release()


def _accept(listener: socket.socket, job: Future[None]) -> socket.socket | None:
    """Return the connection of the next attempt; None if the job has ended."""
    listener.settimeout(_ACCEPT_SECONDS)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if job.done():
                return None
            continue
        connection.settimeout(None)
        # A machine that is gone closes nothing.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        return connection


def _sender(host: str, port: int, secret: bytes) -> Callable[[int, Iterator[bytes]], Iterator[bytes]]:
    """Return what the worker runs. It is pickled by value, so it must refer to nothing outside itself."""

    def send(_: int, messages: Iterator[bytes]) -> Iterator[bytes]:
        import socket  # noqa: PLC0415 - in the worker
        import struct  # noqa: PLC0415

        with socket.create_connection((host, port)) as connection:
            connection.sendall(secret)
            for message in messages:
                connection.sendall(struct.pack("!i", len(message)))
                connection.sendall(message)
            connection.sendall(struct.pack("!i", 0))
        return iter(())

    return send


def _run(jvm: SparkJvm, partition: JavaObject, send: Callable[..., Any], bind: Callable[[], None]) -> None:
    bind()
    command = CloudPickleSerializer().dumps((send, None, NoOpSerializer(), NoOpSerializer()))  # type: ignore[no-untyped-call]
    function = jvm.view.SimplePythonFunction(
        bytearray(command), {}, [], sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}", [], None
    )
    worker = jvm.view.PythonRDD(partition, function, False, False)
    worker.asJavaRDD().count()
