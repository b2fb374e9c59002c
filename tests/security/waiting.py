"""How long others wait while a session does something."""

from __future__ import annotations

import threading
import time

import psycopg


def slowest_beside(thread: threading.Thread, other: psycopg.Connection, sql: str) -> tuple[float, float]:
    """Start the thread; carry out a statement again and again until it ends. The seconds of the slowest, and of all."""
    thread.start()
    slowest, began = 0.0, time.monotonic()
    while thread.is_alive():
        begun = time.monotonic()
        other.execute(sql.encode())
        slowest = max(slowest, time.monotonic() - begun)
    return slowest, time.monotonic() - began
