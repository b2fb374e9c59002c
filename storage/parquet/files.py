"""The lake's files: in a local folder, or in an object store with local copies; its faults are SluiceErrors.

Blocking; call it in threads. Paths here are relative to the data path.

A reader of rows passes the catalog's record of the file (`Expected`), and gets XX001 if the file differs. When a file
is opened, its size, the size of its footer and its number of rows are compared, which costs nothing beside reading it.
If it is not opened, because Spark reads it or because its content is kept in memory, `confirm` compares the size. It
does so for each read, because a file may be damaged at any time: 1,000 files of a local folder take some milliseconds.

An object store replaces objects as a whole or not at all, and each check is a request over the network. So its files
are compared when they are opened or copied here, and when Spark is first given them. Not detected are other bytes in a
file of the same size with a footer of the same size, if it has as many rows or Spark reads it, as long as they can be
decompressed.

A file of a store is written here, and stored by `sync`. It is read from its local copy (see
`storage.parquet.local_copies`); of a large file that has none, pyarrow reads the parts that it needs from the store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from catalog.errors import SluiceError
from storage.parquet import layout
from storage.parquet.file_errors import corrupt_file, file_error, is_access_error
from storage.parquet.file_identity import Expected
from storage.parquet.file_syncs import file_syncs
from storage.parquet.object_store import ObjectStore, connected

# So many requests to an object store run at a time.
_ASKERS: Final = 16
# A file of an object store with so many bytes, or fewer, is copied here when it is read.
_COPIED_BYTES_MAX: Final = 8 * 2**20
_T = TypeVar("_T")


class LakeFiles:
    """Files below `data_path`."""

    def __init__(self, data_path: str) -> None:
        """The process must have connected to an object store (`storage.parquet.object_store.connect`)."""
        self.data_path = data_path
        self._store: ObjectStore | None = None if layout.is_local(data_path) else connected(data_path)
        self._system = pafs.LocalFileSystem()
        self._root = layout.local_path(data_path) if self._store is None else str(self._store.copies.folder)

    @property
    def spark_writes(self) -> bool:
        """Whether Spark's tasks can write where this process finds it. Executors of a cluster do not reach copies."""
        return self._store is None or not self._store.spark_reads

    def full_path(self, path: str) -> str:
        """Return where on this machine the file is written."""
        return layout.join(self._root, path)

    def spark_path(self, path: str) -> str:
        """Return the path by which Spark reads the file, if it is `held`."""
        if self._store is not None and self._store.spark_reads:
            return self._store.spark_url(path)
        return self.full_path(path)

    def create_folder(self, path: str) -> None:
        """Create the folder and those above it; does nothing if it exists, or if the store has no folders."""
        if self._store is None:
            with self._guard(path):
                self._system.create_dir(self.full_path(path), recursive=True)

    @contextmanager
    def output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing."""
        with self.open_output(path) as stream, self._guard(path):
            yield stream

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; the caller closes it."""
        with self._guard(path):
            if self._store is not None:
                self._store.copies.begin(path)
            return self._system.open_output_stream(self.full_path(path))

    def sync(self, paths: Iterable[str]) -> None:
        """Make files and their names survive a loss of power, or have the object store keep them."""
        if self._store is not None:
            self._of_each(list(paths), self._store.put)
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
        if paths:
            file_syncs.begin(paths, partial(self.sync, paths))

    def remove(self, paths: Collection[str]) -> None:
        """Delete files; a missing one is no error."""
        wait(file_syncs.taken(paths))
        if self._store is not None:
            self._of_each(paths, self._store.delete)
            return
        for path in paths:
            with self._guard(path):
                if self._system.get_file_info(self.full_path(path)).type is not pafs.FileType.NotFound:
                    self._system.delete_file(self.full_path(path))

    def remove_folder(self, path: str) -> None:
        """Delete the folder of a job of Spark's and its contents; a missing one is no error."""
        with self._guard(path):
            if self._system.get_file_info(self.full_path(path)).type is pafs.FileType.Directory:
                self._system.delete_dir(self.full_path(path))

    def made(self, folder: str) -> dict[str, int]:
        """Return the files that a job of Spark's has made in its folder on this machine, as `list` does.

        What lost tasks have left is below it.
        """
        found = _sizes(self._system, self._root, folder)
        return {path: size for path, size in found.items() if path.rpartition("/")[0] == folder.strip("/")}

    def adopt(self, source: str, target: str) -> None:
        """Rename a file that a job of Spark's has made: it is a new file of the lake."""
        with self._guard(source):
            if self._store is not None:
                self._store.copies.begin(target)
            self._system.move(self.full_path(source), self.full_path(target))

    def list(self, folder: str = "") -> dict[str, int]:
        """Return every file below the folder: its path (relative to the data path) and its size in bytes."""
        with self._guard(folder):
            return _sizes(self._system, self._root, folder) if self._store is None else self._store.sizes(folder)

    def footer(self, path: str) -> pq.FileMetaData:
        """Read the Parquet footer. XX001 if the file is not Parquet, 58030 if it is missing."""
        with self._guard(path), self._opened(Expected(path, self.size(path), 0, 0)) as source:
            try:
                return pq.read_metadata(source)
            except (pa.ArrowInvalid, OSError) as error:
                raise corrupt_file(path, str(error).splitlines()[0]) from error

    @contextmanager
    def parquet(
        self,
        of: Expected,
        *,
        dictionaries: Sequence[str] = (),
        buffer_bytes: int = 0,
        metadata: pq.FileMetaData | None = None,
    ) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file, to be read in portions; its `metadata` is read unless it is given.

        Columns of `dictionaries` come as dictionaries. With `buffer_bytes`, so much of each column is in memory while
        it is read, in place of all that a row group has of it.

        Errors as `footer`, also while it is read; XX001 if it is not as expected.
        """
        with self._guard(of.path), self._opened(of) as source:
            try:
                _compare_size(of, source.size())
                found = pq.ParquetFile(
                    source,
                    metadata=metadata,
                    read_dictionary=list(dictionaries),
                    buffer_size=buffer_bytes,
                    pre_buffer=not buffer_bytes,
                )
                _compare_footer(of, found.metadata)
                yield found
            except (pa.ArrowException, OSError) as error:
                if is_access_error(error):
                    raise
                raise corrupt_file(of.path, str(error).splitlines()[0]) from error

    def fragment(self, of: Expected) -> pads.ParquetFileFragment:
        """Open a Parquet file, to be read by conditions while it is `copied`; its footer is read once. Errors as
        `parquet`."""
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

    @contextmanager
    def held(
        self, files: Iterable[Expected], *, is_first: bool = False, check: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Surround reads of files by their `full_path` or `spark_path`. Errors as `confirm`.

        With `is_first`, the size of the footer is compared too, and the size of an object that executors read. Copying
        files here may take long: `check` is called before each, and raises to end it.
        """
        if self._store is None:
            self.confirm(files, all_of=is_first)
            yield
            return
        asked = list(files)
        with ExitStack() as copies:
            if not self._store.spark_reads:

                def hold(of: Expected) -> None:
                    check()
                    copies.enter_context(self._held_here(of))

                self._of_each(asked, hold, lambda of: of.path)
            elif is_first:
                self._of_each(asked, self._compare_stored, lambda of: of.path)
            yield

    @contextmanager
    def copied(self, of: Expected) -> Iterator[None]:
        """Surround reads of a file here, by its `full_path`. Errors as `confirm`."""
        if self._store is None:
            self.confirm([of])
            yield
        else:
            with self._held_here(of):
                yield

    def _compare_stored(self, of: Expected) -> None:
        """Raise XX001 if the object that executors are to read differs, 58030 if it is missing."""
        assert self._store is not None, "executors read no copies"
        wait(file_syncs.pending([of.path]))  # one of the transaction's own is on its way
        size = self._store.size(of.path)
        if size is None:
            raise _missing(of.path)
        _compare_size(of, size)

    def confirm(self, files: Iterable[Expected], *, all_of: bool = False) -> None:
        """Raise XX001 if a file of a local folder has another size than expected, 58030 if it is missing.

        With `all_of`, compare the size of the footer too.
        """
        if self._store is not None:
            return
        for of in files:
            with self._guard(of.path):
                _compare_size(of, os.stat(self.full_path(of.path)).st_size)  # noqa: PTH116  Path takes longer
                if all_of and of.footer_size:
                    _compare_footer_size(of, _footer_size(self.full_path(of.path)))

    def size(self, path: str) -> int:
        """Return the file's size in bytes."""
        with self._guard(path):
            size = None
            if self._store is None or self._store.copies.has(path):
                info = self._system.get_file_info(self.full_path(path))
                size = int(info.size) if info.type is pafs.FileType.File else None
            if size is None and self._store is not None:  # a copy may be on its way, or gone meanwhile
                size = self._store.size(path)
        if size is None:
            raise _missing(path)
        return size

    @contextmanager
    def _opened(self, of: Expected) -> Iterator[pa.NativeFile]:
        """Open the file, or its local copy, to be read."""
        store = self._store
        if store is None:
            with self._system.open_input_file(self.full_path(of.path)) as source:
                yield source
        elif of.size_bytes <= _COPIED_BYTES_MAX or store.copies.has(of.path):
            with self._held_here(of) as place, self._system.open_input_file(place) as source:
                yield source
        else:
            with store.open(of.path) as source:
                yield source

    @contextmanager
    def _held_here(self, of: Expected) -> Iterator[str]:
        """Provide the path of the file's local copy."""
        assert self._store is not None, "a local folder has no copies"
        store = self._store

        def fetch(place: Path) -> None:
            store.fetch(of.path, place)
            _compare_size(of, place.stat().st_size)

        with ExitStack() as copy:
            with self._guard(of.path):
                place = copy.enter_context(store.copies.held(of.path, of.size_bytes, fetch))
            yield str(place)

    def _of_each(self, things: Collection[_T], work: Callable[[_T], object], path: Callable[[_T], str] = str) -> None:
        """Do the same with files of an object store, some at a time. The first error ends it."""

        def guarded(thing: _T) -> None:
            with self._guard(path(thing)):
                work(thing)

        if len(things) == 1:
            guarded(*things)
            return
        with ThreadPoolExecutor(_ASKERS) as threads:
            try:
                for done in [threads.submit(guarded, thing) for thing in things]:
                    done.result()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    @contextmanager
    def _guard(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise file_error(error, path) from error


def _sizes(system: pafs.FileSystem, root: str, folder: str) -> dict[str, int]:
    selector = pafs.FileSelector(layout.join(root, folder), allow_not_found=True, recursive=True)
    prefix = root.rstrip("/") + "/"
    return {
        info.path.removeprefix(prefix): info.size
        for info in system.get_file_info(selector)
        if info.type is pafs.FileType.File
    }


def _missing(path: str) -> SluiceError:
    return file_error(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), path)


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
