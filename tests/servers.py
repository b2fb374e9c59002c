"""The servers of tests: the gateway as a user starts it, and plain PostgreSQL beside it."""

from __future__ import annotations

import asyncio
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

from catalog.bootstrap import CLIENT_DATABASE, CLIENT_ROLE, create_client_database
from catalog.postgres.embedded import SUPERUSER, EmbeddedPostgres, binaries
from tests.spark_later import PROGRAM as SPARK_LATER

# The entry point, installed beside the Python that runs the tests.
SLUICE = Path(sys.executable).parent / "sluice"
PSQL_18 = binaries() / "psql"
PSQL_SYSTEM = Path("/usr/bin/psql")
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
STATEMENT_SECONDS_MAX = 300.0


@dataclass(frozen=True)
class Server:
    """A server that speaks PostgreSQL's protocol: `name` is "postgres" or "gateway". Reached by TCP."""

    name: str
    host: str
    port: int
    user: str = CLIENT_ROLE
    database: str = CLIENT_DATABASE

    @property
    def url(self) -> str:
        """As libpq, psycopg and asyncpg take it."""
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"

    @property
    def superuser(self) -> Server:
        """The same server, as the superuser."""
        return replace(self, user=SUPERUSER)

    def psql(
        self,
        *arguments: str,
        sql: str | None = None,
        program: Path = PSQL_18,
        check: bool = True,
        merge_output: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run psql without its start-up file; `sql` is its standard input. A failure raises with what psql said.

        With `merge_output`, standard error goes into standard output, in the order of things. `settings` are those that
        the session begins with.
        """
        return self.run(
            program, "--no-psqlrc", *arguments, sql=sql, check=check, merge_output=merge_output, settings=settings
        )

    def run(
        self,
        program: Path,
        *arguments: str,
        sql: str | None = None,
        check: bool = True,
        merge_output: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run any of PostgreSQL's programs against this server."""
        options = {"PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in (settings or {}).items())}
        command = [str(program), "--host", self.host, "--port", str(self.port), "--username", self.user]
        done = subprocess.run(
            [*command, "--dbname", self.database, *arguments],
            input=(sql or "").encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_output else subprocess.PIPE,
            check=False,
            timeout=STATEMENT_SECONDS_MAX,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PGTZ": "UTC"} | (options if settings else {}),
        )
        # Decoded here: `text=True` would turn a carriage return in a value into a line feed.
        out, error = done.stdout.decode(), (done.stderr or b"").decode()
        if check and done.returncode != 0:
            raise AssertionError(f"{program.name} {' '.join(arguments)} on {self.name}: {error}")
        return subprocess.CompletedProcess(done.args, done.returncode, out, error)

    def query(self, sql: str) -> list[list[str]]:
        """The rows of one statement, as psql prints them; NULL as `NULL`."""
        out = self.psql("-qAt", "-F", "\x1f", "-R", "\x1e", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1", "-c", sql)
        return [row.split("\x1f") for row in out.stdout.removesuffix("\n").split("\x1e") if row]


# Below those that Linux gives to clients (ip_local_port_range).
_PORTS: Final = (20_000, 32_000)


def sqlstate_of(server: Server, *statements: str) -> tuple[str, str]:
    """SQLSTATE and message of the last of the statements, which has to fail."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        *before, last = statements
        for statement in before:
            connection.execute(statement.encode())
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(last.encode())
        return raised.value.sqlstate or "", str(raised.value)


def free_port() -> int:
    """A TCP port that nothing listens on now. The kernel gives it to no client: who listened there can do so again."""
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@contextmanager
def open_directory(name: str) -> Iterator[Path]:
    """A temporary folder that everybody may pass, so that PostgreSQL, which as root runs as another user, knows its own
    folder by name.

    Pytest's own will not do: each run of pytest closes the folder above all of them again.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"sluice-{name}-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


async def _create_roles(dsn: str) -> None:
    """Sluice's own roles, which clients of a catalog see as well."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute((files("catalog") / "sql" / "roles.sql").read_text())
    finally:
        await connection.close()


def write_through_memory(url: str) -> None:
    """No file need outlive the machine: what processes have written when they are killed, the kernel has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")


def start_oracle(directory: Path) -> tuple[EmbeddedPostgres, Server]:
    """A plain PostgreSQL 18, configured as the catalog is, with the same role and database, on TCP as well."""
    postgres = EmbeddedPostgres(directory / "postgres")
    port = free_port()

    async def start() -> None:
        await postgres.start()
        await create_client_database(postgres.dsn)
        await _create_roles(postgres.dsn)
        await postgres.stop()
        with (postgres.cluster / "postgresql.conf").open("a") as configuration:
            configuration.write(f"listen_addresses = '127.0.0.1'\nport = {port}\nfsync = off\n")
        await postgres.start()

    asyncio.run(start())
    return postgres, Server("postgres", "127.0.0.1", port)


def descendants(process_id: int) -> dict[int, str]:
    """Process number → command of all processes below `process_id`."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        state, parent = rest.split()[:2]
        if state != "Z":
            parents[int(entry.name)] = int(parent)
            commands[int(entry.name)] = command
    found = {process_id}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: commands[child] for child in found - {process_id}}


def running(process_ids: set[int]) -> set[int]:
    """Those of the processes that still run."""
    alive = set()
    for process_id in process_ids:
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            alive.add(process_id)
    return alive


def wait_until_gone(process_ids: set[int], seconds: float = STOP_SECONDS_MAX) -> None:
    """Returns when none of the processes runs any more; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while left := running(process_ids):
        assert time.monotonic() < deadline, f"processes {left} are still there"
        time.sleep(0.02)


@dataclass
class GatewayProcess:
    """`sluice serve` as a process of its own. Use as a context manager: leaving it ends it and checks its end.

    Its Spark begins with the first statement that it computes, unless the `program` is SLUICE itself.
    """

    data_dir: Path
    port: int = field(default_factory=free_port)
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    maintenance: bool = False  # in the background: tests count files and snapshots
    user: str | None = None  # to connect as, where the catalog is not the embedded one
    program: tuple[str, ...] = SPARK_LATER
    lines: list[str] = field(default_factory=list)
    server: Server = field(init=False)
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> Self:
        """Start, and wait for the line `ready: postgresql://…`."""
        is_new = not (self.data_dir / "catalog").exists()
        command = [*self.program, "serve", "--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}"]
        if not self.maintenance:
            command.append("--no-maintenance")
        self.process = subprocess.Popen(
            [*command, *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Several gateways share this machine while tests run.
            env={"SLUICE_DRIVER_MEMORY": "2g", **os.environ, **self.environment},
            start_new_session=True,
        )
        incoming: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(incoming,), daemon=True).start()
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                line = incoming.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.kill()
                raise AssertionError(f"the gateway did not get ready; it said: {self.output}") from None
            if line is None:
                raise AssertionError(f"the gateway ended with {self.process.wait()}; it said: {self.output}")
            if line.startswith("ready: "):
                url = urlsplit(line.removeprefix("ready: ").strip())
                assert (url.scheme, url.port) == ("postgresql", self.port), line
                user, database = self.user or url.username, url.path.strip("/")
                assert url.hostname is not None, line
                assert user, line
                self.server = Server("gateway", url.hostname, self.port, user, database)
                if is_new and (self.data_dir / "catalog").exists():
                    write_through_memory(self.catalog_url)
                return self

    def _read(self, incoming: queue.SimpleQueue[str | None]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                incoming.put(line)
        incoming.put(None)

    @property
    def output(self) -> str:
        """All that the gateway has printed."""
        return "\n".join(self.lines)

    @property
    def children(self) -> dict[int, str]:
        """Its PostgreSQL, its JVM, and theirs."""
        return descendants(self.process.pid)

    @property
    def catalog_url(self) -> str:
        """The embedded catalog itself, as the superuser, past the gateway."""
        return EmbeddedPostgres(self.data_dir / "catalog").url(CLIENT_DATABASE)

    def kill(self) -> None:
        """kill -9 the gateway alone. Its children must notice by themselves."""
        children = set(self.children)
        self.process.kill()
        self.process.wait()
        wait_until_gone(children)

    def stop(self) -> None:
        """SIGTERM; a clean end takes every child along."""
        children = set(self.children)
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"SIGTERM did not end the gateway; it said: {self.output}") from None
        assert status == 0, f"the gateway ended with {status}; it said: {self.output}"
        wait_until_gone(children)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()


def run_sluice(*arguments: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run a command of Sluice's to its end."""
    return subprocess.run(
        [str(SLUICE), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
