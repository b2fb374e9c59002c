"""What a client is told of a file that cannot be written or read, or is not the expected one."""

from __future__ import annotations

import errno
import os
import re
from typing import Final

from catalog.errors import SluiceError, SqlState

_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_ERRNO: Final = re.compile(r"\[[Ee]rrno (\d+)\]")
# pyarrow tells an object store's answer in words alone.
_OF_STORE: Final = "AWS Error"


def file_error(error: OSError, path: str) -> SluiceError:
    """Return the client's error for one of the operating system or the object store: 53100 for a full disk, else
    58030; it names the file."""
    number = _number(error)
    if number in _NO_SPACE:
        return SluiceError(SqlState.DISK_FULL, f'could not write file "{path}": {os.strerror(number)}')
    reason = os.strerror(number) if number is not None else str(error).splitlines()[0]
    return SluiceError(SqlState.IO_ERROR, f'could not access file "{path}": {reason}')


def corrupt_file(path: str, reason: str) -> SluiceError:
    """Return the client's error for a file of the lake that is not the expected Parquet."""
    return SluiceError(SqlState.DATA_CORRUPTED, f'file "{path}" of the lake cannot be read: {reason}')


def is_access_error(error: BaseException) -> bool:
    """Whether the operating system or the object store failed, rather than the file's content."""
    return isinstance(error, OSError) and (_number(error) is not None or _OF_STORE in str(error))


def _number(error: OSError) -> int | None:
    if error.errno is None and (match := _ERRNO.search(str(error))):
        return int(match[1])
    return error.errno
