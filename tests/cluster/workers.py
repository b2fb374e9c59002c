"""A standalone Spark cluster on this machine: a master and workers of one core each, all on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pyspark

from tests.servers import descendants, free_port

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_START_SECONDS_MAX = 60.0
_EXECUTOR = "CoarseGrainedExecutorBackend"
# Each process names itself by this address, the gateway's driver too.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
# Of the master and the workers, which compute nothing.
_SMALL = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Cluster:
    """Use as a context manager: leaving it ends all processes, executors included."""

    def __init__(self, directory: Path, workers: int = 2, memory: str = "1g") -> None:
        self.directory = directory
        self.port = free_port()
        self._memory = memory
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Spark's master, as `sluice serve --spark` takes it."""
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        master = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port()))
        self._start("org.apache.spark.deploy.master.Master", "master", *master)
        self._wait()
        for number in range(self._count):
            folder = self.directory / f"worker-{number}"
            size = ("--cores", "1", "--memory", self._memory, "--webui-port", str(free_port()))
            place = ("--host", "127.0.0.1", "--work-dir", str(folder))
            self._start("org.apache.spark.deploy.worker.Worker", f"worker-{number}", *place, *size, self.url)
        return self

    def _start(self, name: str, log: str, *arguments: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{log}.log").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(_SPARK_CLASS), name, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={
                        **os.environ,
                        **LOOPBACK,
                        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                    },
                    start_new_session=True,
                )
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.directory / "master.log").read_text()
                time.sleep(0.2)

    def executors(self) -> list[int]:
        """The process numbers of the executors that run."""
        below = {number for process in self._processes for number in descendants(process.pid)}
        return sorted(number for number in below if _EXECUTOR in _command(number))

    def seconds(self) -> float:
        """The processor time that the executors have used."""
        return sum(map(_seconds, self.executors()))

    def lose_an_executor(self) -> None:
        """kill -9 one of them. Its worker starts another."""
        os.kill(self.executors()[0], signal.SIGKILL)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            process.wait(20)


def _command(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _seconds(process_id: int) -> float:
    """Its processor time, as user and in the kernel (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
