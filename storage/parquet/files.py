"""The lake's file system: a local folder or an object store, through pyarrow; its faults are SluiceErrors.

Blocking; call it in threads. Paths here are relative to the data path.

A reader of rows passes the catalog's record of the file (`Expected`), and gets XX001 if the file differs. When a file
is opened, its size, the size of its footer and its number of rows are compared, which costs nothing beside reading it.
If it is not opened, because Spark reads it or because its content is kept in memory, `confirm` compares the size. It
does so for each read, because a file may be damaged at any time: 1,000 files of a local folder take some milliseconds.

An object store replaces objects as a whole or not at all, and each check is a request over the network. So its files
are compared when they are opened here, and (`all_of`) when Spark is first given them. Not detected are other bytes in a
file of the same size with a footer of the same size, if it has as many rows or Spark reads it, as long as they can be
decompressed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from catalog.errors import SluiceError, SqlState
from storage.parquet import layout
from storage.parquet.file_identity import Expected
from storage.parquet.file_syncs import file_syncs

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
# So many requests to an object store run at a time.
_ASKERS: Final = 16
_ERRNO: Final = re.compile(r"\[[Ee]rrno (\d+)\]")


def file_error(error: OSError, path: str) -> SluiceError:
    """Return the client's error for one of the operating system: 53100 for a full disk, else 58030; it names the
    file."""
    number = error.errno
    if number is None and (match := _ERRNO.search(str(error))):
        number = int(match[1])
    if number in _NO_SPACE:
        return SluiceError(SqlState.DISK_FULL, f'could not write file "{path}": {os.strerror(number)}')
    reason = os.strerror(number) if number is not None else str(error).splitlines()[0]
    return SluiceError(SqlState.IO_ERROR, f'could not access file "{path}": {reason}')


def corrupt_file(path: str, reason: str) -> SluiceError:
    """Return the client's error for a file of the lake that is not the expected Parquet."""
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
        """Return the path as pyarrow's file system takes it."""
        return layout.join(self._root, path)

    def create_folder(self, path: str) -> None:
        """Create the folder and those above it; does nothing if it exists, or if the store has no folders."""
        with self._guard(path):
            self._system.create_dir(self.full_path(path), recursive=True)

    @contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing."""
        with self._guard(path), self._system.open_output_stream(self.full_path(path)) as stream:
            yield stream

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; the caller closes it."""
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

    def sync_later(self, paths: Sequence[str]) -> None:
        """Begin to `sync`. COMMIT waits for it (`storage.parquet.file_syncs`)."""
        if self.local and paths:
            file_syncs.begin(paths, partial(self.sync, paths))

    def remove(self, paths: Collection[str]) -> None:
        """Delete files; a missing one is no error."""
        wait(file_syncs.taken(paths))
        for path in paths:
            with self._guard(path):
                if self._system.get_file_info(self.full_path(path)).type is not pafs.FileType.NotFound:
                    self._system.delete_file(self.full_path(path))

    def remove_folder(self, path: str) -> None:
        """Delete a folder and its contents; a missing one is no error."""
        with self._guard(path):
            if self._system.get_file_info(self.full_path(path)).type is pafs.FileType.Directory:
                self._system.delete_dir(self.full_path(path))

    def move(self, source: str, target: str) -> None:
        """Rename a file (an object store copies it)."""
        with self._guard(source):
            self._system.move(self.full_path(source), self.full_path(target))

    def list(self, folder: str = "") -> dict[str, int]:
        """Return every file below the folder: its path (relative to the data path) and its size in bytes."""
        selector = pafs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=True)
        with self._guard(folder):
            found = self._system.get_file_info(selector)
        prefix = self._root.rstrip("/") + "/"
        return {info.path.removeprefix(prefix): info.size for info in found if info.type is pafs.FileType.File}

    def footer(self, path: str) -> pq.FileMetaData:
        """Read the Parquet footer. XX001 if the file is not Parquet, 58030 if it is missing."""
        with self._guard(path), self._system.open_input_file(self.full_path(path)) as source:
            try:
                return pq.read_metadata(source)
            except (pa.ArrowInvalid, OSError) as error:
                raise corrupt_file(path, str(error).splitlines()[0]) from error

    @contextmanager
    def parquet(
        self, of: Expected, *, dictionaries: Sequence[str] = (), buffer_bytes: int = 0
    ) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file, to be read in portions.

        Columns of `dictionaries` come as dictionaries. With `buffer_bytes`, so much of each column is in memory while
        it is read, in place of all that a row group has of it.

        Errors as `footer`, also while it is read; XX001 if it is not as expected.
        """
        with self._guard(of.path), self._system.open_input_file(self.full_path(of.path)) as source:
            try:
                _compare_size(of, source.size())
                found = pq.ParquetFile(
                    source, read_dictionary=list(dictionaries), buffer_size=buffer_bytes, pre_buffer=not buffer_bytes
                )
                _compare_footer(of, found.metadata)
                yield found
            except (pa.ArrowException, OSError) as error:
                # Faults that Arrow itself finds have no error number of the operating system.
                if isinstance(error, OSError) and (error.errno is not None or _ERRNO.search(str(error))):
                    raise
                raise corrupt_file(of.path, str(error).splitlines()[0]) from error

    def fragment(self, of: Expected) -> pads.ParquetFileFragment:
        """Open a Parquet file, to be read by conditions; its footer is read once. Errors as `parquet`."""
        with self.parquet(of):
            found = pads.ParquetFileFormat().make_fragment(self.full_path(of.path), filesystem=self._system)
            found.ensure_complete_metadata()
            return found

    def read_column(self, of: Expected, column: str) -> pa.ChunkedArray:
        """Read one column of a Parquet file, whole. Errors as `parquet`."""
        with self.parquet(of) as found:
            if column not in found.schema_arrow.names:
                raise corrupt_file(of.path, f'it has no column "{column}"')
            return found.read(columns=[column]).column(0)

    def confirm(self, files: Iterable[Expected], *, all_of: bool = False) -> None:
        """Raise XX001 if a file has another size than expected, 58030 if it is missing.

        With `all_of`, compare the size of the footer too, and check files of an object store as well.
        """
        if self.local:
            for of in files:
                with self._guard(of.path):
                    _compare_size(of, os.stat(self.full_path(of.path)).st_size)  # noqa: PTH116  Path takes longer
                    if all_of and of.footer_size:
                        _compare_footer_size(of, _footer_size(self.full_path(of.path)))
        elif all_of:
            asked = list(files)
            with ThreadPoolExecutor(_ASKERS) as askers:
                for of, size in zip(asked, askers.map(lambda of: self.size(of.path), asked), strict=True):
                    _compare_size(of, size)

    def size(self, path: str) -> int:
        """Return the file's size in bytes."""
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


def _compare_size(of: Expected, size: int) -> None:
    if size != of.size_bytes:
        raise corrupt_file(of.path, f"it has {size} bytes, but {of.size_bytes} by the catalog")


def _compare_footer(of: Expected, footer: pq.FileMetaData) -> None:
    if footer.num_rows != of.row_count:
        raise corrupt_file(of.path, f"it has {footer.num_rows} rows, but {of.row_count} by the catalog")
    if of.footer_size:
        _compare_footer_size(of, footer.serialized_size)


def _compare_footer_size(of: Expected, size: int) -> None:
    if size != of.footer_size:
        raise corrupt_file(of.path, f"its footer has {size} bytes, but {of.footer_size} by the catalog")


def _footer_size(path: str) -> int:
    """Return the footer size of a Parquet file from its last bytes: the size, then the magic number."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        end = os.lseek(descriptor, 0, os.SEEK_END)
        return int.from_bytes(os.pread(descriptor, 4, max(end - 8, 0)), "little")
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
