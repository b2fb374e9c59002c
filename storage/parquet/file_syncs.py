"""Syncs of new files that run while their statement goes on.

A disk takes milliseconds for a sync, an object store longer, and until COMMIT nothing depends on it. So a statement's
writer begins it, and the transaction waits for it before COMMIT. Until then each path is pending, unless its file is
removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final

_THREADS: Final = 16


class FileSyncs:
    """The pending syncs by their files' paths below the data path, which no two files share. Safe in threads."""

    def __init__(self) -> None:
        self._pending: dict[str, Future[None]] = {}
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(_THREADS, "file-sync")

    def begin(self, paths: Iterable[str], sync: Callable[[], None]) -> None:
        """Run `sync`, which makes these files survive a loss of power, in a thread."""
        future = self._threads.submit(sync)
        with self._lock:
            self._pending.update((path.lstrip("/"), future) for path in paths)

    def taken(self, paths: Iterable[str]) -> set[Future[None]]:
        """Return the syncs of these files, which are pending no more; the caller waits for each.

        A file without one is synced already.
        """
        with self._lock:
            found = {self._pending.pop(path.lstrip("/"), None) for path in paths}
        return {each for each in found if each is not None}

    def pending(self, paths: Iterable[str]) -> set[Future[None]]:
        """Return the syncs of these files, which stay pending."""
        with self._lock:
            found = {self._pending.get(path.lstrip("/")) for path in paths}
        return {each for each in found if each is not None}

    async def done(self, paths: Iterable[str]) -> None:
        """Wait for the syncs of these files, all of them. Raises what one has raised: 53100, 58030."""
        paths = list(paths)
        syncs = self.pending(paths)
        if syncs:
            await asyncio.gather(*map(asyncio.wrap_future, syncs), return_exceptions=True)
        for each in self.taken(paths):
            each.result()


file_syncs: Final = FileSyncs()
