"""The lake's file system: a local folder or an object store, through pyarrow; and its faults as SluiceErrors.

Blocking; call it in threads. Paths given here are relative to the data path.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from catalog.errors import SluiceError, SqlState
from storage import layout

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_ERRNO: Final = re.compile(r"\[[Ee]rrno (\d+)\]")


def file_error(error: OSError, path: str) -> SluiceError:
    """The error a client sees when the operating system refuses: 53100 for a full disk, else 58030; names the file."""
    number = error.errno
    if number is None and (match := _ERRNO.search(str(error))):
        number = int(match[1])
    if number in _NO_SPACE:
        return SluiceError(SqlState.DISK_FULL, f'could not write file "{path}": {os.strerror(number)}')
    reason = os.strerror(number) if number is not None else str(error).splitlines()[0]
    return SluiceError(SqlState.IO_ERROR, f'could not access file "{path}": {reason}')


def corrupt_file(path: str, reason: str) -> SluiceError:
    """The error a client sees when a file of the lake is not the Parquet that it should be."""
    return SluiceError(SqlState.DATA_CORRUPTED, f'file "{path}" of the lake cannot be read: {reason}')


class LakeFiles:
    """Files below `data_path`."""

    def __init__(self, data_path: str) -> None:
        self.data_path = data_path
        self.local = layout.is_local(data_path)
        if self.local:
            self._system: pafs.FileSystem = pafs.LocalFileSystem()
            self._root = layout.local_path(data_path)
        else:
            self._system, self._root = pafs.FileSystem.from_uri(data_path)

    def full_path(self, path: str) -> str:
        """The path as pyarrow's file system takes it."""
        return layout.join(self._root, path)

    def create_folder(self, path: str) -> None:
        """Make the folder and those above it; does nothing where it is, or where the store has no folders."""
        with self._guard(path):
            self._system.create_dir(self.full_path(path), recursive=True)

    @contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file for writing."""
        with self._guard(path), self._system.open_output_stream(self.full_path(path)) as stream:
            yield stream

    def open_output(self, path: str) -> pa.NativeFile:
        """A new file for writing; the caller closes it."""
        with self._guard(path):
            return self._system.open_output_stream(self.full_path(path))

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and their names survive a loss of power. Object stores do so when a file is closed."""
        if not self.local:
            return
        folders = set()
        for path in paths:
            with self._guard(path):
                _sync(self.full_path(path))
            folders.add(str(Path(self.full_path(path)).parent))
        for folder in folders:
            with self._guard(folder):
                _sync(folder)

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files; one that is not there is fine."""
        for path in paths:
            with self._guard(path):
                if self._system.get_file_info(self.full_path(path)).type is not pafs.FileType.NotFound:
                    self._system.delete_file(self.full_path(path))

    def remove_folder(self, path: str) -> None:
        """Delete a folder and all that is in it; one that is not there is fine."""
        with self._guard(path):
            if self._system.get_file_info(self.full_path(path)).type is pafs.FileType.Directory:
                self._system.delete_dir(self.full_path(path))

    def move(self, source: str, target: str) -> None:
        """Rename a file (an object store copies it)."""
        with self._guard(source):
            self._system.move(self.full_path(source), self.full_path(target))

    def list(self, folder: str = "") -> dict[str, int]:
        """Every file below the folder: its path (relative to the data path) and its size in bytes."""
        selector = pafs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=True)
        with self._guard(folder):
            found = self._system.get_file_info(selector)
        prefix = self._root.rstrip("/") + "/"
        return {info.path.removeprefix(prefix): info.size for info in found if info.type is pafs.FileType.File}

    def footer(self, path: str) -> pq.FileMetaData:
        """The Parquet footer. XX001 where the file is not Parquet, 58030 where it is missing."""
        with self._guard(path), self._system.open_input_file(self.full_path(path)) as source:
            try:
                return pq.read_metadata(source)
            except (pa.ArrowInvalid, OSError) as error:
                raise corrupt_file(path, str(error).splitlines()[0]) from error

    @contextmanager
    def parquet(self, path: str) -> Iterator[pq.ParquetFile]:
        """A Parquet file to be read in portions. Errors as `footer`, also those of reading it."""
        with self._guard(path), self._system.open_input_file(self.full_path(path)) as source:
            try:
                yield pq.ParquetFile(source)
            except (pa.ArrowException, OSError) as error:
                # What Arrow itself finds wrong has no number of the operating system's.
                if isinstance(error, OSError) and (error.errno is not None or _ERRNO.search(str(error))):
                    raise
                raise corrupt_file(path, str(error).splitlines()[0]) from error

    def fragment(self, path: str) -> pads.ParquetFileFragment:
        """A Parquet file to be read by conditions; its footer is read once. Errors as `footer`, when it is read."""
        return pads.ParquetFileFormat().make_fragment(self.full_path(path), filesystem=self._system)

    def read_column(self, path: str, column: str) -> pa.ChunkedArray:
        """One column of a Parquet file, whole. Errors as `footer`."""
        with self._guard(path), self._system.open_input_file(self.full_path(path)) as source:
            try:
                return pq.ParquetFile(source).read(columns=[column]).column(0)
            except (pa.ArrowException, OSError, IndexError) as error:
                raise corrupt_file(path, str(error).splitlines()[0]) from error

    def size(self, path: str) -> int:
        """The file's size in bytes."""
        with self._guard(path):
            info = self._system.get_file_info(self.full_path(path))
        if info.type is not pafs.FileType.File:
            raise file_error(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), path)
        return int(info.size)

    @contextmanager
    def _guard(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise file_error(error, path) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
