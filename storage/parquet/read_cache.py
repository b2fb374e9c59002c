"""What was read of files of the lake, kept in memory: a file never changes, and its name is never given to another.

So what is kept is true for as long as the file is there, and what is kept of a file that is gone is asked for by
nobody. The least recently used go.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from storage.parquet.file_identity import Expected
from storage.parquet.files import LakeFiles

_T = TypeVar("_T")
# What was packed into a small file may be large: nothing is kept that would take more than this part of the memory.
_SHARE_MIN: Final = 16


class KeptReads(Generic[_T]):
    """Up to so many bytes of what `size` measures. Safe in threads."""

    def __init__(self, bytes_max: int, size: Callable[[_T], int]) -> None:
        self._kept = LRUCache[tuple[str, str], _T](bytes_max, getsizeof=size)
        self._size = size
        self._lock = Lock()

    def get(self, files: LakeFiles, of: Expected, read: Callable[[], _T]) -> _T:
        """What is kept of the file, else what `read` gives. XX001 and 58030 as `LakeFiles.confirm`, also where it is
        kept but the file is not. Blocking."""
        key = (files.data_path, of.path)
        with self._lock:
            found = self._kept.get(key)
        if found is not None:
            files.confirm([of])
            return found
        found = read()
        if self._size(found) <= self._kept.maxsize / _SHARE_MIN:
            with self._lock:
                self._kept[key] = found
        return found
