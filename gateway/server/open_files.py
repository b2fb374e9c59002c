"""Raises the process's limit of open files and sockets."""

from __future__ import annotations

import resource
from typing import Final

from catalog.errors import SluiceError, SqlState

# A session, its backend, and a connection before login.
_FOR_EACH_CONNECTION: Final = 3
# Files of the lake, the JVM's sockets, the gateway's own connections.
_OTHERS: Final = 1024


def allow_open_files(max_connections: int) -> None:
    """Allow as many as `max_connections` needs, if the system permits it. 53000 if it does not."""
    wanted = _FOR_EACH_CONNECTION * max_connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SluiceError(
            SqlState.INSUFFICIENT_RESOURCES,
            f"{max_connections} connections take {wanted} open files, of which the system allows {hard} (ulimit -Hn)",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
