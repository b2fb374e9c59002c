"""What `sluice serve` runs with."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.backend.dsn import in_url
from gateway.server.admission import Limits
from planner.plans.placement import Engine
from storage.spark.spark_conf import default_driver_memory
from storage.spool.spill import TEMP_FILE_LIMIT_BYTES
from storage.spool.unread_rows import LIMIT_BYTES

GRACE_SECONDS: Final = 8.0
DEFAULT_ENGINE: Final = Engine.AUTO
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104


@dataclass(frozen=True, slots=True)
class Options:
    """What `sluice serve` was given. `catalog` is a postgresql:// URI, or None for the embedded one.

    Without `maintenance`, this gateway does none in the background. `grace` is for how many seconds SIGTERM lets
    statements go on; `unread_limit` how many bytes of disk the rows may take that clients have not read,
    `temp_file_limit` how many those that are kept until a statement is over. `spark_conf` are the user's settings of
    Spark (storage.spark.spark_conf). `engine` is what `sluice.engine` is where nobody has set it
    (gateway.statement.query_placement). `shuffled` is for tests: the seed of blocks out of order
    (storage.spark.shuffled_blocks).
    """

    host: str
    port: int
    catalog: str | None = None
    spark: str = "local[*]"
    data_path: str | None = None
    maintenance: bool = True
    grace: float = GRACE_SECONDS
    limits: Limits = Limits()  # noqa: RUF009  immutable
    driver_memory: str = field(default_factory=default_driver_memory)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    spark_ui: bool = False
    engine: Engine = DEFAULT_ENGINE
    shuffled: int | None = None
    unread_limit: int = LIMIT_BYTES
    temp_file_limit: int = TEMP_FILE_LIMIT_BYTES

    @property
    def address(self) -> str:
        """By what `pg_sluice.nodes` tells it from others: a gateway that listens everywhere has its machine's name."""
        return f"{socket.gethostname() if self.host in _EVERYWHERE else in_url(self.host)}:{self.port}"
