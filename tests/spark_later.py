"""`sluice` whose Spark begins with the first statement that it computes, not before the gateway is ready.

Run as a program, with the arguments of `sluice`: for tests that start gateways again and again and need little of
Spark, whose JVM is more than half the cost of a start.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final
from unittest.mock import patch

PROGRAM: Final = (sys.executable, str(Path(__file__)))


async def _later(_: object) -> None:
    """The engine starts Spark for its first statement."""


def main() -> int:
    """Run `sluice`. What is imported here would be imported twice before the process has its stack."""
    from gateway.node.stack_depth import begin_with_deep_stack  # noqa: PLC0415

    begin_with_deep_stack()
    from gateway.cli import main as cli  # noqa: PLC0415
    from storage.spark.engine import SparkEngine  # noqa: PLC0415

    with patch.object(SparkEngine, "start", _later):
        return cli.main()


if __name__ == "__main__":
    # This file's folder is no place to import from: its modules are named after PostgreSQL's.
    sys.path.pop(0)
    sys.exit(main())
