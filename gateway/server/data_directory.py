"""The data directory that gateways of one machine share: its layout, and the lock on the embedded PostgreSQL.

Any number of gateways may use it. The one that holds the lock runs PostgreSQL (gateway/server/supervision.py).
"""

from __future__ import annotations

import fcntl
import itertools
import os
from pathlib import Path

from catalog.errors import SluiceError, SqlState


class DataDirectory:
    """`catalog/` (the embedded PostgreSQL), `lake/` (Parquet), `tls/`, `unread/` (unread rows, in files without
    names), `copies-N/` (copies of an object store's files), `spark.log`, and the locks.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.catalog = self.root / "catalog"
        self.lake = self.root / "lake"
        self.tls = self.root / "tls"
        self.unread = self.root / "unread"
        self.spark_log = self.root / "spark.log"
        self._lock: int | None = None
        self._copies_lock: int | None = None

    @property
    def data_path(self) -> str:
        """The lake's root as the catalog records it, with a trailing slash."""
        return f"{self.lake}/"

    def make(self) -> None:
        """Make the folder if it is missing. Other users may not read what belongs to this one."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.lake.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.root, self.lake):
                if folder.stat().st_uid == os.geteuid():
                    folder.chmod(0o700)
        except OSError as error:
            raise SluiceError(SqlState.IO_ERROR, f"cannot use {self.root}: {error.strerror}") from error

    def claim_copies(self) -> Path:
        """Return a folder for local copies of an object store's files that no other gateway uses. It is this process's
        until that ends.
        """
        for number in itertools.count(1):
            lock = self._locked(f"copies-{number}.lock")
            if lock is not None:
                self._copies_lock = lock
                return self.root / f"copies-{number}"
        raise AssertionError("unreachable")

    def acquire(self) -> bool:
        """Try to take the lock; return whether this process has it now. The lock ends with the process, however that
        ends.
        """
        if self._lock is not None:
            return True
        lock = self._locked("gateway.lock")
        if lock is None:
            return False
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock
        return True

    def _locked(self, name: str) -> int | None:
        """Open and lock a file of the folder; None if another process has the lock."""
        try:
            lock = os.open(self.root / name, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SluiceError(SqlState.IO_ERROR, f"cannot use {self.root}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock."""
        return self._lock is not None

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
