"""`sluice serve` from its start to its end: its output, its addresses, and its signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.servers import (
    SLUICE,
    STOP_SECONDS_MAX,
    GatewayProcess,
    descendants,
    free_port,
    run_sluice,
    wait_until_gone,
)

_WITHOUT_A_JVM = """
import logging, socket
from threading import Thread
from gateway.cli.main import _log_to_stderr
from py4j.java_gateway import GatewayClient

_log_to_stderr()
jvm = socket.create_server(("127.0.0.1", 0))
Thread(target=lambda: jvm.accept()[0].close()).start()
GatewayClient(port=jvm.getsockname()[1]).send_command("m", retry=False)
logging.warning("and others")
"""


def test_that_the_jvm_is_gone_is_no_line_of_the_log() -> None:
    """Py4J logs it itself, when an object of a JVM is let go that has been stopped: many lines, to the root logger."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_A_JVM], capture_output=True, text=True, check=True, timeout=60
    )
    assert [line.partition(" root: ")[2] for line in done.stderr.splitlines()] == ["and others"]


@pytest.mark.parametrize("listen", ["5433", "localhost:", ":5433", "localhost:65536", "localhost:http"])
def test_an_address_that_is_none(listen: str) -> None:
    done = run_sluice("serve", "--listen", listen)
    assert done.returncode == 2
    assert "expected HOST:PORT" in done.stderr


@pytest.mark.parametrize("listen", ["[::1]", "localhost"])
def test_it_says_what_it_starts_and_then_where_it_is(data_dir: Path, listen: str) -> None:
    """One line of each part, and last the URL, by which a client comes in as it stands. SIGINT ends it at once, and its
    PostgreSQL and its JVM with it."""
    if listen == "[::1]" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    port = free_port()
    command = [str(SLUICE), "serve", "--data-dir", str(data_dir), "--listen", f"{listen}:{port}", "--spark", "local[1]"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(3)]
    url = f"postgresql://sluice@{listen}:{port}/sluice"
    assert said == ["starting the embedded PostgreSQL\n", "starting Spark (local[1])\n", f"ready: {url}\n"]
    children = descendants(process.pid)
    assert {"postgres", "java"} <= set(children.values())
    with closing(psycopg.connect(url)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=STOP_SECONDS_MAX)
    assert (process.returncode, rest) == (0, "stopping\n")
    wait_until_gone(set(children))


@pytest.mark.turns
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", ["starting the embedded PostgreSQL", "starting Spark (local[*])"])
def test_it_can_be_stopped_while_it_starts(data_dir: Path, stop: signal.Signals, after: str) -> None:
    command = [str(SLUICE), "serve", "--data-dir", str(data_dir), "--listen", f"127.0.0.1:{free_port()}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    while process.stdout.readline().rstrip() != after:
        assert process.poll() is None
    time.sleep(0.2)
    children = set(descendants(process.pid))
    process.send_signal(stop)
    rest, _ = process.communicate(timeout=STOP_SECONDS_MAX)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest
    assert "ready:" not in rest
    wait_until_gone(children)


def test_a_second_signal_does_not_wait_for_statements(data_dir: Path) -> None:
    """SIGTERM lets a statement go on; a second one ends it, and the client is told why."""
    process = GatewayProcess(data_dir, arguments=("--grace", "60"), program=(str(SLUICE),)).start()
    with closing(psycopg.connect(process.server.url, autocommit=True)) as connection:
        connection.pgconn.send_query(b"SELECT pg_sleep(50)")
        time.sleep(0.5)
        children = set(process.children)
        process.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert process.process.poll() is None, "it did not wait"
        begin = time.monotonic()
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(STOP_SECONDS_MAX) == 0
        assert time.monotonic() - begin < 30
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57P01"
    wait_until_gone(children)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("serve", "--data-dir", "{file}/inside"), "Not a directory"),
        (("serve", "--catalog", "host=localhost"), "postgresql:// URI"),
        (("check", "--data-dir", "{file}/inside"), "{file}/inside"),
        (("attach", "--data-dir", "{file}.none"), "there is no lake in {file}.none"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    (tmp_path / "file").touch()
    named = [each.format(file=tmp_path / "file") for each in arguments]
    if "--data-dir" not in named:
        named += ["--data-dir", str(tmp_path / "data")]
    done = run_sluice(*named)
    assert done.returncode == 1
    assert done.stdout == ""
    line = done.stderr
    assert line.startswith("sluice: ")
    assert line.count("\n") == 1
    assert reason.format(file=tmp_path / "file") in line
