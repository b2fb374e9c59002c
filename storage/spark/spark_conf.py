"""The Spark settings that users may choose, and their defaults.

Some settings decide what SQL means here, or that a result is complete. These are the product's: another value could
give wrong answers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from catalog.errors import SluiceError, SqlState

_GIGABYTE: Final = 2**30
# From 32 GB on, Java's pointers are twice as wide.
_DRIVER_GIGABYTES: Final = range(1, 32)
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_SIZE: Final = re.compile(r"[1-9]\d*[kmgt]", re.ASCII | re.IGNORECASE)
# Names, and beginnings of names, of settings that change answers, undo limits or have an option of `sluice serve`.
# Those that `storage.spark.jvm` sets are refused as well.
_FIXED: Final = {
    "spark.master": "use --spark",
    "spark.driver.memory": "use --driver-memory",
    "spark.ui.enabled": "use --spark-ui",
    "spark.local.dir": "it is the gateway's own",
    "spark.submit.deployMode": "the driver is the gateway's child",
}
_FIXED_BEGINNINGS: Final = ("spark.sql.legacy.", "spark.scheduler.", "spark.jars.ivy")
# Of the settings with a value here, these only affect speed, room or place.
CHOOSABLE: Final = frozenset({
    "spark.app.name", "spark.log.level", "spark.buffer.pageSize", "spark.cleaner.periodicGC.interval",
    "spark.default.parallelism", "spark.driver.bindAddress", "spark.driver.extraJavaOptions", "spark.driver.host",
    "spark.driver.maxResultSize", "spark.executor.extraJavaOptions", "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.enabled", "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.files.maxPartitionBytes", "spark.sql.parquet.compression.codec",
    "spark.sql.parser.manageParserCaches", "spark.sql.parser.parserDfaCacheFlushRatio",
    "spark.sql.shuffle.partitions", "spark.task.maxFailures", "spark.sql.sources.parallelPartitionDiscovery.threshold",
})  # fmt: skip
# These have a value of Sluice's, to which the user's is appended.
_APPENDED: Final = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


def memory_size(text: str) -> str:
    """Return a size as Java takes it. ValueError if it is none."""
    if _SIZE.fullmatch(text) is None:
        raise ValueError("expected a size, as 512m or 8g")
    return text.lower()


def default_driver_memory() -> str:
    """Return a quarter of the machine's memory, or of its control group's limit; 1 to 31 GB."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = "max"
    if limit.isdecimal():
        size = min(size, int(limit))
    gigabytes = min(max(size // 4 // _GIGABYTE, _DRIVER_GIGABYTES[0]), _DRIVER_GIGABYTES[-1])
    return f"{gigabytes}g"


def read_defaults(file: Path) -> list[tuple[str, str]]:
    """Read the settings of a file in the form of Spark's spark-defaults.conf: a name, blanks or `=`, and a value a
    line.

    58030 if it cannot be read, 22023 for an invalid line. Source: Spark's configuration guide.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SluiceError(SqlState.IO_ERROR, f"cannot read {file}: {reason}") from error
    found = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith(("#", "!")):
            continue
        match = re.fullmatch(r"([^\s=:]+)\s*[=:\s]\s*(.*)", line)
        if match is None:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{file}, line {number}: expected a name and a value")
        found.append((match[1], match[2]))
    return found


def chosen_settings(pairs: Iterable[tuple[str, str]], own: dict[str, str]) -> dict[str, str]:
    """Return Sluice's settings changed by the user's, the strongest last. 22023 if one of them is not the user's to
    choose."""
    chosen: dict[str, str] = {}
    for name, value in pairs:
        reason = None
        if not name.startswith("spark."):
            reason = "settings of Spark begin with spark."
        elif name in _FIXED:
            reason = _FIXED[name]
        elif (name in own and name not in CHOOSABLE) or name.startswith(_FIXED_BEGINNINGS):
            reason = "answers depend on it"
        if reason is not None:
            raise SluiceError(SqlState.INVALID_PARAMETER_VALUE, f"{name} cannot be set: {reason}")
        chosen[name] = f"{own[name]} {value}" if name in _APPENDED and name in own else value
    return chosen
