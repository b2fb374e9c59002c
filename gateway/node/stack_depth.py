"""Gives the main thread, which runs the event loop, a stack deep enough for nested statements.

Compiled code uses the C stack and ignores the recursion limit. So the stack must be deeper than what PostgreSQL, which
checks first, permits. A process gets its stacks at its start; so it executes itself again.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Final

STACK_BYTES: Final = 1 << 29  # of addresses; memory is allocated when it is used


def begin_with_deep_stack() -> None:
    """Replace this process by itself with a larger stack, unless the stack is large enough or the limit forbids it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  no shell, and nothing of a client's
