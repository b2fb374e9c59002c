"""The layout of the lake: names and paths of files. Pure.

    <data path>/<table path>/<uuid>-w<number>.parquet           rows
    <data path>/<table path>/<uuid>-w<number>-delete.parquet    positions deleted from one data file
    <data path>/<table path>/_<uuid>-w<number>/…                output of a running Spark job
    <data path>/<table path>/index-<id>/<uuid>-w<number>.parquet    an index's sidecar of one data file

UUIDs are version 7, so names sort by creation time. The number is that of the writing gateway, left out if there is
none. A file is written under its final name and has no effect until the catalog names it: readers never list folders. A
file in a table's folder that is not in the catalog is either being written or an orphan. `born_at` reads the creation
time from the name, `writer_of` the gateway.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

_NAME: Final = re.compile(
    r"_?(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})(?:-w(?P<writer>[0-9]{1,9}))?"
    r"(?:-delete)?(?:\.parquet)?"
)
_writer: int | None = None


def write_as(number: int | None) -> None:
    """From now on, name this process's files as those of the gateway of that number."""
    global _writer  # noqa: PLW0603  a process is one gateway at most
    _writer = number


def _new_name() -> str:
    return str(new_uuid()) if _writer is None else f"{new_uuid()}-w{_writer}"


def new_uuid() -> UUID:
    """Return a UUID of version 7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    number = (milliseconds & (1 << 48) - 1) << 80 | random
    number = number & ~(0xF << 76) | 7 << 76
    return UUID(int=number & ~(0x3 << 62) | 2 << 62)


def new_data_file() -> str:
    """Return a fresh name for a data file, relative to its table's folder."""
    return f"{_new_name()}.parquet"


def new_delete_file() -> str:
    """Return a fresh name for a delete file, relative to its table's folder."""
    return f"{_new_name()}-delete.parquet"


def index_folder(index_id: int) -> str:
    """Return the folder of an index's sidecars, relative to its table's."""
    return f"index-{index_id}/"


def new_job_folder() -> str:
    """Return a fresh name for the folder of a Spark job's output. Spark's and Hadoop's readers skip names with `_`."""
    return f"_{_new_name()}"


def join(data_path: str, *parts: str) -> str:
    """Return the path of `parts` below the data path, which is a local folder or a URL."""
    path = data_path.rstrip("/") or "/"
    for part in parts:
        path = f"{path.rstrip('/')}/{part.lstrip('/')}"
    return path


def is_local(data_path: str) -> bool:
    """Whether the data path is a folder of this machine: no URL, or one of the scheme `file`."""
    return urlsplit(data_path).scheme in ("", "file")


def local_path(path: str) -> str:
    """Return a local path without its URL scheme."""
    return urlsplit(path).path if path.startswith("file:") else path


def born_at(path: str) -> float | None:
    """Return when (Unix seconds) the file or job folder was named; None if the name is not one of Sluice's."""
    for part in PurePosixPath(path).parts:
        match = _NAME.fullmatch(part)
        if match is not None:
            return (UUID(match["uuid"]).int >> 80) / 1000
    return None


def writer_of(path: str) -> int | None:
    """Return the number of the gateway that has written the file; None if the name does not say."""
    for part in PurePosixPath(path).parts:
        match = _NAME.fullmatch(part)
        if match is not None:
            return None if match["writer"] is None else int(match["writer"])
    return None
