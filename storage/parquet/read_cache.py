"""A cache of what was read from files of the lake.

A file never changes, and its name is never given to another, so an entry is true while the file exists; the entry of a
removed file is never asked for. The least recently used are evicted.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from storage.parquet.file_identity import Expected
from storage.parquet.files import LakeFiles

_T = TypeVar("_T")
# A small compressed file may be large in memory: nothing that would take more than this part of the cache is kept.
_SHARE_MIN: Final = 16


class KeptReads(Generic[_T]):
    """A cache of so many bytes, measured by `size`. Safe in threads."""

    def __init__(self, bytes_max: int, size: Callable[[_T], int]) -> None:
        self._kept = LRUCache[tuple[str, str], _T](bytes_max, getsizeof=size)
        self._size = size
        self._lock = Lock()

    def get(self, files: LakeFiles, of: Expected, read: Callable[[], _T]) -> _T:
        """Return the cached content of the file, else the result of `read`.

        XX001 and 58030 as `LakeFiles.confirm`, also if the content is cached but the file is missing. Blocking.
        """
        key = (files.data_path, of.path)
        with self._lock:
            found = self._kept.get(key)
        if found is not None:
            files.confirm([of])
            return found
        found = read()
        self.keep(files, of.path, found)
        return found

    def made(self, files: LakeFiles, path: str, make: Callable[[], _T]) -> _T:
        """Return the cached content of hot rows at a path where there is no file, else the result of `make`."""
        with self._lock:
            found = self._kept.get((files.data_path, path))
        if found is None:
            found = make()
            self.keep(files, path, found)
        return found

    def keep(self, files: LakeFiles, path: str, content: _T) -> None:
        """Cache the content of the file, whose path is below the data path."""
        if self._size(content) <= self._kept.maxsize / _SHARE_MIN:
            with self._lock:
                self._kept[files.data_path, path] = content
