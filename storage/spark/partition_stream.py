"""A partition stream: batches of one partition, sent from its task to this process as they are made.

Spark itself returns a partition whole, so one that explodes (a cross join, a long series) would fill the memory of the
JVM. Here a Python worker of Spark's beside the task sends each batch over TCP as it is made, and waits if it is not
read. The task keeps its slot meanwhile, so there are few relays at a time, and a local Spark has spare slots. The
reader waits for a slow client for a moment only (`storage.spool.batch_channel`), so a relay is soon free again.

On a cluster Spark tries a lost task again, whose new attempt begins with the first batch. It may cut its rows
otherwise, so they are passed on only if none of the lost attempt were.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing, contextmanager
from typing import Any, Final

from py4j.java_gateway import JavaObject
from pyspark.serializers import CloudPickleSerializer, NoOpSerializer, read_int

from storage.spark.jvm import SparkJvm
from storage.spark.spark_errors import worker_lost

_ACCEPT_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5
_BUFFER_BYTES: Final = 256 * 1024
_SECRET_BYTES: Final = 32


def relayed(
    jvm: SparkJvm, partition: JavaObject, executor: Executor, bind: Callable[[], None]
) -> Generator[bytes, None, None]:
    """Yield the elements (bytes) of an RDD of one partition, as they are made.

    The job runs in `executor`, in a thread that calls `bind` first. Its failure is raised here, and 58000 if a worker
    was lost that has sent some of them.
    """
    with _place(jvm, bind), closing(socket.create_server((jvm.relay_host, 0), backlog=1)) as listener:
        host, port = listener.getsockname()[:2]
        secret = secrets.token_bytes(_SECRET_BYTES)
        job = executor.submit(_run, jvm, partition, _sender(host, port, secret), bind)
        passed, is_whole, goes_on = 0, False, True
        while not is_whole:
            connection = _accept(listener, job)
            goes_on = passed == 0
            with closing(connection), closing(connection.makefile("rb", _BUFFER_BYTES)) as stream:
                if not hmac.compare_digest(stream.read(_SECRET_BYTES), secret):
                    raise ConnectionError("a stranger connected to the port of a result")
                while message := _message(stream):
                    if goes_on:
                        passed += 1
                        yield message
                is_whole = message is not None
        # Rows of a later attempt are read to their end, because a fault of theirs is what the client has to know.
        job.result()
        if not goes_on:
            raise worker_lost()


@contextmanager
def _place(jvm: SparkJvm, check: Callable[[], None]) -> Iterator[None]:
    """Take one of the few relays; a waiter checks now and then whether its statement was cancelled."""
    while not jvm.relays.acquire(timeout=_LOOK_SECONDS):
        check()
    try:
        yield
    finally:
        jvm.relays.release()


def _message(stream: Any) -> bytes | None:
    """Return the next batch; an empty one at the end, None if the sender was lost before it."""
    try:
        length: int = read_int(stream)  # type: ignore[no-untyped-call]
    except (EOFError, ConnectionError):
        return None
    message: bytes = stream.read(length)
    return message if len(message) == length else None


def _accept(listener: socket.socket, job: Future[None]) -> socket.socket:
    listener.settimeout(_ACCEPT_SECONDS)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            if job.done():
                job.result()
                raise ConnectionError("Spark ended a result without sending it") from None
            continue
        connection.settimeout(None)
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
