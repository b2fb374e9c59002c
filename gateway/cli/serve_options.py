"""The options of `sluice serve`."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.backend.dsn import in_url
from gateway.server.admission import Limits
from planner.plans.placement import Engine
from storage.parquet.object_store import StoreSettings
from storage.spark.spark_conf import default_driver_memory
from storage.spool.spill import TEMP_FILE_LIMIT_BYTES
from storage.spool.unread_rows import LIMIT_BYTES

GRACE_SECONDS: Final = 8.0
DEFAULT_ENGINE: Final = Engine.AUTO
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `sluice serve`. `catalog` is a postgresql:// URI, or None for the embedded one.

    Without `maintenance`, this gateway runs no background maintenance. `grace` is the time in seconds that SIGTERM
    leaves to statements. `unread_limit` limits the disk space of unread rows in bytes, `temp_file_limit` that of rows
    kept until a statement ends. `spark_conf` are the user's Spark settings (storage.spark.spark_conf). `engine` is the
    default of `sluice.engine` (gateway.statement.query_placement). `shuffled` is for tests: the seed of blocks out of
    order (storage.spark.shuffled_blocks). `store` tells how to reach the object store of a `data_path` that is a URL.
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
    store: StoreSettings = StoreSettings()  # noqa: RUF009  immutable

    @property
    def address(self) -> str:
        """The gateway's name in `pg_sluice.nodes`: its address, or its machine's name if it listens at all
        addresses.
        """
        return f"{socket.gethostname() if self.host in _EVERYWHERE else in_url(self.host)}:{self.port}"
