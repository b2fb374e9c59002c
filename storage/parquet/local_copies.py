"""Local copies of an object store's files.

Spark reads files by a path of this machine, and a file is written here before it goes to the store. A file never
changes, and its name is never given to another, so a copy is true for as long as the store has the file. Copies that
nobody holds go, the least recently used first, once all take more than the limit. A copy that is held stays, so they
may take more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

_FETCHED: Final = ".fetching"


@dataclass(slots=True)
class _Copy:
    """A file of so many bytes; `ready` is done when it is there. Who holds it keeps it."""

    size: int
    holds: int = 0
    ready: Future[None] = field(default_factory=Future)


class LocalCopies:
    """The copies in a folder, which is emptied first. Paths are relative to it, as to the data path. Safe in threads;
    blocking."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        """OSError if the folder cannot be emptied or made."""
        self.folder = folder
        self._bytes_max = bytes_max
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700, parents=True)

    def place(self, path: str) -> Path:
        """Return where the copy of a file is, or would be."""
        return self.folder / path.lstrip("/")

    def begin(self, path: str) -> Path:
        """Return where to write a new file. It stays until it is `stored` or removed."""
        place = self.place(path)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = _Copy(0, holds=1)
        copy.ready.set_result(None)
        with self._lock:
            self._copies[path.lstrip("/")] = copy
        return place

    def stored(self, path: str, size: int) -> None:
        """From now on a new file's copy may go: the store has the file."""
        with self._lock:
            copy = self._copies.get(path.lstrip("/"))
            if copy is None:
                return  # it was removed meanwhile
            copy.size = size
            copy.holds -= 1
            self._copies.move_to_end(path.lstrip("/"))
            self._bytes += size
            self._evict()

    def has(self, path: str) -> bool:
        """Whether a copy is here, or on its way."""
        with self._lock:
            return path.lstrip("/") in self._copies

    @contextmanager
    def held(self, path: str, size: int, fetch: Callable[[Path], None]) -> Iterator[Path]:
        """Provide the copy of a file of so many bytes, which `fetch` writes if there is none. It stays meanwhile.

        Raises what `fetch` raises, also to others who wait for the same copy.
        """
        name, place = path.lstrip("/"), self.place(path)
        with self._lock:
            copy = self._copies.get(name)
            if copy is not None and copy.holds == 0 and _size(place) != copy.size:
                self._forget(name)  # somebody has changed or removed it
                copy = None
            is_new = copy is None
            if copy is None:
                copy = self._copies[name] = _Copy(size)
            copy.holds += 1
            self._copies.move_to_end(name)
        try:
            if is_new:
                self._fetch(name, copy, fetch)
            copy.ready.result()
            yield place
        finally:
            with self._lock:
                copy.holds -= 1
                if copy.holds == 0 and name not in self._copies:
                    place.unlink(missing_ok=True)  # it was removed while it was fetched
                self._evict()

    def remove(self, path: str) -> None:
        """Remove the copy of a file, if there is one."""
        with self._lock:
            self._forget(path.lstrip("/"))
        self.place(path).unlink(missing_ok=True)

    def _fetch(self, name: str, copy: _Copy, fetch: Callable[[Path], None]) -> None:
        place = self.place(name)
        beside = place.with_name(place.name + _FETCHED)
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fetch(beside)
            beside.replace(place)
        except BaseException as error:  # noqa: BLE001  others wait, and `held` raises it
            beside.unlink(missing_ok=True)
            with self._lock:
                if self._copies.get(name) is copy:
                    del self._copies[name]
            copy.ready.set_exception(error)
            return
        with self._lock:
            copy.ready.set_result(None)
            if self._copies.get(name) is copy:
                self._bytes += copy.size

    def _evict(self) -> None:
        """Remove copies until they take no more than the limit. The caller has the lock."""
        if self._bytes <= self._bytes_max:
            return
        for name in [name for name, copy in self._copies.items() if copy.holds == 0]:
            self._forget(name)
            with contextlib.suppress(OSError):
                self.place(name).unlink(missing_ok=True)
            if self._bytes <= self._bytes_max:
                return

    def _forget(self, name: str) -> None:
        copy = self._copies.pop(name, None)
        if copy is not None and copy.ready.done():
            self._bytes -= copy.size


def _size(place: Path) -> int | None:
    try:
        return os.stat(place).st_size  # noqa: PTH116  Path takes longer
    except OSError:
        return None
