"""A gateway's own folder on disk: what is where, and that one gateway at a time has it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from catalog.errors import SluiceError, SqlState


class DataDirectory:
    """`catalog/` (the embedded PostgreSQL), `lake/` (Parquet), `tls/`, `spark.log`, and the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.catalog = self.root / "catalog"
        self.lake = self.root / "lake"
        self.tls = self.root / "tls"
        self.spark_log = self.root / "spark.log"
        self._lock: int | None = None

    @property
    def data_path(self) -> str:
        """The lake's root as the catalog records it, with a trailing slash."""
        return f"{self.lake}/"

    def acquire(self) -> None:
        """Make the folder and take it for this process; the lock goes with the process, however that ends."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.lake.mkdir(exist_ok=True)
            lock = os.open(self.root / "gateway.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SluiceError(SqlState.IO_ERROR, f"cannot use {self.root}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 32, 0).decode().strip()
            os.close(lock)
            raise SluiceError(
                SqlState.CANNOT_CONNECT_NOW, f"another gateway (process {holder}) already serves {self.root}"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    def is_served(self) -> bool:
        """Whether a gateway has the folder now."""
        try:
            self.acquire()
        except SluiceError as error:
            if error.sqlstate == SqlState.CANNOT_CONNECT_NOW:
                return True
            raise
        self.release()
        return False

    def release(self) -> None:
        """Give the folder back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
