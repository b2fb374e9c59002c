"""Where files are: names and paths, pure.

    <data path>/<table path>/<uuid>-w<number>.parquet           rows
    <data path>/<table path>/<uuid>-w<number>-delete.parquet    positions deleted from one data file
    <data path>/<table path>/_<uuid>-w<number>/…                what a Spark job is writing
    <data path>/<table path>/index-<id>/<uuid>-w<number>.parquet    an index's sidecar of one data file

UUIDs are version 7, so names sort by the time they were made; the number is that of the gateway which writes, left out
where there is none. A file is written under its final name and means nothing until the catalog names it: no reader ever
lists a folder. What is in a table's folder and not in the catalog is therefore either being written now or an orphan;
`born_at` tells from the name when it was made, `writer_of` by whom.
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
    """From now on, this process names its files as those of the gateway of that number."""
    global _writer  # noqa: PLW0603  a process is one gateway at most
    _writer = number


def _new_name() -> str:
    return str(new_uuid()) if _writer is None else f"{new_uuid()}-w{_writer}"


def new_uuid() -> UUID:
    """A UUID of version 7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    number = (milliseconds & (1 << 48) - 1) << 80 | random
    number = number & ~(0xF << 76) | 7 << 76
    return UUID(int=number & ~(0x3 << 62) | 2 << 62)


def new_data_file() -> str:
    """A fresh name for a data file, relative to its table's folder."""
    return f"{_new_name()}.parquet"


def new_delete_file() -> str:
    """A fresh name for a delete file, relative to its table's folder."""
    return f"{_new_name()}-delete.parquet"


def index_folder(index_id: int) -> str:
    """The folder of an index's sidecars, relative to its table's."""
    return f"index-{index_id}/"


def new_job_folder() -> str:
    """A fresh name for the folder of a Spark job's output. Spark's and Hadoop's readers skip names with `_`."""
    return f"_{_new_name()}"


def join(data_path: str, *parts: str) -> str:
    """The path of `parts` below the data path, whether that is a local folder or a URL."""
    path = data_path.rstrip("/") or "/"
    for part in parts:
        path = f"{path.rstrip('/')}/{part.lstrip('/')}"
    return path


def is_local(data_path: str) -> bool:
    """Whether the data path is a folder of this machine: no URL, or one of the scheme `file`."""
    return urlsplit(data_path).scheme in ("", "file")


def local_path(path: str) -> str:
    """A local path without its URL scheme."""
    return urlsplit(path).path if path.startswith("file:") else path


def born_at(path: str) -> float | None:
    """When (Unix seconds) the file or job folder was named; None where the name is not one that Sluice gives."""
    for part in PurePosixPath(path).parts:
        match = _NAME.fullmatch(part)
        if match is not None:
            return (UUID(match["uuid"]).int >> 80) / 1000
    return None


def writer_of(path: str) -> int | None:
    """The number of the gateway that has written the file; None where the name does not say."""
    for part in PurePosixPath(path).parts:
        match = _NAME.fullmatch(part)
        if match is not None:
            return None if match["writer"] is None else int(match["writer"])
    return None
