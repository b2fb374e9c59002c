"""Clocks and memory: how long something takes, how much a process holds at most."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path


def seconds(action: Callable[[], object]) -> float:
    """Wall-clock seconds that one call takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def alternately(times: int, *actions: Callable[[], object]) -> list[float]:
    """The median seconds of each action, all run in turn `times` times."""
    taken: list[list[float]] = [[] for _ in actions]
    for _ in range(times):
        for each, action in zip(taken, actions, strict=True):
            each.append(seconds(action))
    return [statistics.median(each) for each in taken]


def percentiles(values: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = statistics.quantiles(values * 2 if len(values) == 1 else values, n=100, method="inclusive")
    return cuts[49], cuts[98]


def resident_bytes(process_id: int) -> int:
    """What the process holds in memory now (VmRSS)."""
    return _status(process_id, "VmRSS")


def forget_peak(process_id: int) -> None:
    """Set the peak back to what is held now: proc(5), /proc/pid/clear_refs, 5."""
    Path(f"/proc/{process_id}/clear_refs").write_text("5")


def peak_bytes(process_id: int) -> int:
    """The most that the process held since `forget_peak` (VmHWM)."""
    return _status(process_id, "VmHWM")


def _status(process_id: int, field: str) -> int:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(process_id)
