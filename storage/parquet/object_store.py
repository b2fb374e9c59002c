"""An object store that holds a lake: S3, or a server that speaks its protocol.

Files are written to local copies and then to the store, whole: an object is there or not. Nothing is renamed, and what
has to be right depends on no list of files. Credentials come from where the AWS SDK looks for them (the environment, a
profile, the machine's role); no part of Sluice sees them.

A killed gateway may leave parts of an upload that never became an object. Only a rule of the bucket
(AbortIncompleteMultipartUpload) removes those.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from catalog.errors import SluiceError, SqlState
from storage.parquet import layout
from storage.parquet.file_errors import file_error
from storage.parquet.local_copies import LocalCopies

COPIES_BYTES_MAX: Final = 20 * 2**30
# What is held in memory of a file on its way.
_PART_BYTES: Final = 8 * 2**20
# With the SDK's growing pauses, some 30 seconds of a store that is down or throttles.
ATTEMPTS: Final = 7
_CONNECT_SECONDS: Final = 5.0
# So long without a byte.
_SILENT_SECONDS: Final = 30.0
_JAR: Final = "hadoop-aws"
_JARS: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How to reach the store. `endpoint` is the URL of a server that is not Amazon's; `path_style` says that it takes
    the bucket's name in the path, not in the host's name. `copies` is the folder of local copies (None: a temporary
    one), which may take `copies_bytes_max`. With `spark_reads`, Spark reads from the store itself, by `s3a`. A request
    that fails in a way that may pass is tried `attempts` times.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool = True
    copies: Path | None = None
    copies_bytes_max: int = COPIES_BYTES_MAX
    spark_reads: bool = False
    attempts: int = ATTEMPTS


class ObjectStore:
    """The objects below a URL like `s3://bucket/prefix`. Paths are relative to it. Blocking; OSError where it fails."""

    def __init__(self, url: str, settings: StoreSettings) -> None:
        """Raises 22023 if the URL or the endpoint is none that can be used. Asks the store nothing."""
        self._root = _bucket_and_prefix(url)
        self.spark_reads = settings.spark_reads
        endpoint = None if settings.endpoint is None else checked_endpoint(settings.endpoint)
        self.system = pafs.S3FileSystem(
            endpoint_override=None if endpoint is None else urlsplit(endpoint).netloc,
            scheme="https" if endpoint is None else urlsplit(endpoint).scheme,
            region=settings.region,
            force_virtual_addressing=endpoint is not None and not settings.path_style,
            background_writes=False,  # parts that wait would be in memory, however many
            allow_delayed_open=True,
            retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=settings.attempts),
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_SILENT_SECONDS,
        )
        self.copies = LocalCopies(settings.copies or _temporary_folder(), settings.copies_bytes_max)

    def check(self) -> None:
        """Raise 58030 if the bucket cannot be reached, or is not there."""
        bucket = self._root.partition("/")[0]
        try:
            is_there = self.system.get_file_info(bucket).type is pafs.FileType.Directory
        except OSError as error:
            raise file_error(error, f"s3://{bucket}") from error
        if not is_there:
            raise SluiceError(SqlState.IO_ERROR, f'bucket "{bucket}" does not exist')

    def key(self, path: str) -> str:
        """Return the bucket and the key of a file, as `system` takes them."""
        return layout.join(self._root, path)

    def spark_url(self, path: str) -> str:
        """Return the URL by which Spark reads the file, if it does."""
        return f"s3a://{self.key(path)}"

    def put(self, path: str) -> None:
        """Store the local copy of a new file."""
        place = self.copies.place(path)
        try:
            with place.open("rb") as source, self.system.open_output_stream(self.key(path)) as sink:
                while part := source.read(_PART_BYTES):
                    sink.write(part)
        except OSError:
            with contextlib.suppress(OSError):  # an upload that failed may have been ended as if it were whole
                self.system.delete_file(self.key(path))
            raise
        size = place.stat().st_size
        if self.size(path) != size:
            raise OSError(errno.EIO, f"the object store has not kept all of {size} bytes")
        self.copies.stored(path, size)

    def fetch(self, path: str, place: Path) -> None:
        """Write the object to a file of this machine."""
        with self.system.open_input_file(self.key(path)) as source, place.open("wb") as sink:
            size = source.size()
            for start in range(0, size, _PART_BYTES):
                part = source.read_at(min(_PART_BYTES, size - start), start)
                sink.write(part)
                if len(part) < min(_PART_BYTES, size - start):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

    def open(self, path: str) -> pa.NativeFile:
        """Open an object, of which parts are read. FileNotFoundError if there is none."""
        return self.system.open_input_file(self.key(path))

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes; None if there is none."""
        info = self.system.get_file_info(self.key(path))
        return int(info.size) if info.type is pafs.FileType.File else None

    def sizes(self, folder: str) -> dict[str, int]:
        """Return all objects below a folder, with their sizes in bytes."""
        found = self.system.get_file_info(pafs.FileSelector(self.key(folder), allow_not_found=True, recursive=True))
        prefix = self._root.rstrip("/") + "/"
        return {info.path.removeprefix(prefix): info.size for info in found if info.type is pafs.FileType.File}

    def delete(self, path: str) -> None:
        """Delete the object and its local copy; a missing one is no error."""
        self.copies.remove(path)
        if self.size(path) is not None:
            with contextlib.suppress(FileNotFoundError):  # another gateway was faster
                self.system.delete_file(self.key(path))


_connected: Final = dict[str, ObjectStore]()


def connect(url: str, settings: StoreSettings) -> ObjectStore:
    """From now on, this process reads and writes the lake at `url` with these settings. 22023, 58030."""
    try:
        found = _connected[url.rstrip("/")] = ObjectStore(url, settings)
    except OSError as error:
        raise file_error(error, str(settings.copies)) from error
    return found


def connected(url: str) -> ObjectStore:
    """Return the store of the lake at `url`, to which the process has connected."""
    return _connected[url.rstrip("/")]


def checked_endpoint(text: str) -> str:
    """Return the URL of an endpoint. 22023 if it is none, or has credentials."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/") or parts.query:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "the endpoint is not a URL like https://host:port")
    if parts.username is not None:
        raise _with_credentials()
    return f"{parts.scheme}://{parts.netloc}"


def reads_itself(spark: Mapping[str, str]) -> bool:
    """Whether these settings of Spark's bring Hadoop's file system for S3."""
    return any(_JAR in spark.get(name, "") for name in _JARS)


def spark_settings(settings: StoreSettings) -> dict[str, str]:
    """Return the settings by which Hadoop's file system reaches the store, by name."""
    found = {}
    if settings.endpoint is not None:
        endpoint = checked_endpoint(settings.endpoint)
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = str(settings.path_style).lower()
        found["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(endpoint.startswith("https")).lower()
    if settings.region is not None:
        found["spark.hadoop.fs.s3a.endpoint.region"] = settings.region
    return found


def duckdb_secret(settings: StoreSettings) -> str:
    """Return the statement by which DuckDB, with its extension httpfs, reaches the store. The user adds credentials."""
    words: Sequence[str] = ["TYPE s3", "PROVIDER credential_chain"]
    if settings.endpoint is not None:
        parts = urlsplit(checked_endpoint(settings.endpoint))
        style = "path" if settings.path_style else "vhost"
        words = [*words, f"ENDPOINT '{parts.netloc}'", f"URL_STYLE '{style}'"]
        words = [*words, f"USE_SSL {str(parts.scheme == 'https').lower()}"]
    if settings.region is not None:
        region = settings.region.replace("'", "''")
        words = [*words, f"REGION '{region}'"]
    return f"CREATE SECRET lake ({', '.join(words)});"


def _temporary_folder() -> Path:
    """Return a new folder that goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-copies-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _bucket_and_prefix(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "s3":
        raise SluiceError(
            SqlState.INVALID_PARAMETER_VALUE,
            f'the data path is neither a folder nor a URL like s3://bucket/prefix: "{parts.scheme}"',
        )
    if "@" in parts.netloc:
        raise _with_credentials()
    if not parts.netloc or parts.query or parts.fragment:
        raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, "the data path is not a URL like s3://bucket/prefix")
    return layout.join(parts.netloc, parts.path.strip("/")).rstrip("/")


def _with_credentials() -> SluiceError:
    return SluiceError(
        SqlState.INVALID_PARAMETER_VALUE,
        "a URL with credentials is not taken, because it is kept and shown",
        hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    )
