"""A streamed partition whose task is tried again: its sender is lost, silent, or there are two. The job is a double."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from catalog.errors import SluiceError
from storage.spark import partition_stream

_BATCHES = [b"one", b"two" * 100_000, b"three"]
_Job = Callable[[str, int, bytes], None]


def _framed(batches: list[bytes], *, ends: bool = True) -> bytes:
    framed = b"".join(struct.pack("!i", len(batch)) + batch for batch in batches)
    return framed + struct.pack("!i", 0) * ends


def _send(host: str, port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection((host, port))
    connection.sendall(data)
    return connection


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[_Job], list[bytes]]]:
    """Reads what a job sends that is given the place and the secret."""
    places: dict[str, Any] = {}

    def note(host: str, port: int, secret: bytes) -> Callable[..., Any]:
        places["place"] = (host, port, secret)
        return lambda *_: None

    monkeypatch.setattr(partition_stream, "_sender", note)
    jvm: Any = SimpleNamespace(relay_host="127.0.0.1", relays=threading.BoundedSemaphore(1))
    with ThreadPoolExecutor(2) as executor:

        def run(job: _Job) -> list[bytes]:
            monkeypatch.setattr(partition_stream, "_run", lambda *_: job(*places["place"]))
            return list(partition_stream.relayed(jvm, None, executor, lambda: None))

        yield run


def test_all_batches_come(read: Callable[[_Job], list[bytes]]) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, secret + _framed(_BATCHES)).close()

    assert read(job) == _BATCHES


@pytest.mark.parametrize("cut", [0, 3, 32, 34, 36])
def test_an_attempt_that_is_lost_before_its_first_batch(read: Callable[[_Job], list[bytes]], cut: int) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, (secret + _framed(_BATCHES))[:cut]).close()
        _send(host, port, secret + _framed(_BATCHES)).close()

    assert read(job) == _BATCHES


def test_an_attempt_that_falls_silent_before_its_first_batch(read: Callable[[_Job], list[bytes]]) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        with _send(host, port, secret):
            _send(host, port, secret + _framed(_BATCHES)).close()
            ended.wait(20)

    ended = threading.Event()
    threading.Timer(3, ended.set).start()
    assert read(job) == _BATCHES


def test_an_attempt_that_is_lost_when_batches_were_passed_on(read: Callable[[_Job], list[bytes]]) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, secret + _framed(_BATCHES[:1], ends=False)).close()
        _send(host, port, secret + _framed(_BATCHES)).close()

    with pytest.raises(SluiceError) as raised:
        read(job)
    assert raised.value.sqlstate == "58000"


def test_another_attempt_after_a_whole_one(read: Callable[[_Job], list[bytes]]) -> None:
    """The driver has not heard of the first one's end; the other one sends more than the network holds."""

    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, secret + _framed(_BATCHES)).close()
        _send(host, port, secret + _framed([b"x" * 2**20] * 40)).close()

    assert read(job) == _BATCHES


def test_a_fault_of_the_job_is_what_is_told(read: Callable[[_Job], list[bytes]]) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, secret + _framed(_BATCHES[:1], ends=False)).close()
        _send(host, port, secret + _framed(_BATCHES[:1], ends=False)).close()
        raise SluiceError("22012", "division by zero")

    with pytest.raises(SluiceError, match="division by zero"):
        read(job)


def test_a_stranger_is_passed_over(read: Callable[[_Job], list[bytes]]) -> None:
    def job(host: str, port: int, secret: bytes) -> None:
        _send(host, port, bytes(len(secret)) + _framed([b"forged"])).close()
        _send(host, port, secret + _framed(_BATCHES)).close()

    assert read(job) == _BATCHES


def test_a_job_that_sends_nothing(read: Callable[[_Job], list[bytes]]) -> None:
    with pytest.raises(ConnectionError):
        read(lambda *_: None)
