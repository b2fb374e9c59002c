"""A main thread whose stack is as deep as what it may be handed: the event loop runs there.

Compiled code goes down the C stack and looks at no limit of recursion, so the limit has to lie beyond what PostgreSQL,
which has looked first, lets through. A process's stacks are laid out when it begins: so it begins once more.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

STACK_BYTES: Final = 1 << 29  # of addresses: memory is taken as it is used


def begin_with_deep_stack() -> None:
    """Replace this process by itself with more stack, unless it has enough, or may have no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  no shell, and nothing of a client's
