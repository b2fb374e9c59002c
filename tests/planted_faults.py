"""Planted faults, one at a time: does the tier `fast` find each?

`python -m tests.planted_faults [NAME …]`. Each fault names tests of that tier. They run until one fails, on gateways in
which the fault is planted. The exit status is 0 if each was found.

A plug-in of pytest as well, by which these tests get their gateways; and the program that they run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest

from tests.servers import SLUICE, GatewayProcess
from tests.spark_later import PROGRAM as SPARK_LATER

ROOT: Final = Path(__file__).parents[1]
_OURS: Final = ("catalog.", "gateway.", "planner.", "storage.")
_SESSIONS: Final = "tests/gateway/test_sessions.py"
_QUERIES: Final = ("tests/gateway/test_sessions.py", "-k", "correlated-limits or enums or triggers-views")
_ISOLATION: Final = "tests/isolation/test_isolation.py"

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Fault:
    """`tests` are pytest's arguments."""

    name: str
    plant: Plant
    tests: tuple[str, ...]


def _everywhere(right: Any, wrong: Any) -> AbstractContextManager[Any]:
    """A function is replaced in each module that has it."""
    stack = ExitStack()
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS):
            for attribute in [key for key, value in vars(module).items() if value is right]:
                stack.enter_context(patch.object(module, attribute, wrong))
    return stack


async def _nothing(*_: object, **__: object) -> None:
    """Does not do it."""


async def _true(*_: object, **__: object) -> bool:
    return True


def _next_row_too() -> AbstractContextManager[Any]:
    from storage.parquet.positions import DeletedPositions  # noqa: PLC0415

    right = DeletedPositions.mark

    def wrong(self: DeletedPositions, path: str, positions: Any) -> Any:
        found = right(self, path, positions)
        rows = self._of(path)
        rows[np.minimum(positions + 1, len(rows) - 1)] = True
        return found

    return patch.object(DeletedPositions, "mark", wrong)


def _wrong_bound() -> AbstractContextManager[Any]:
    from storage.parquet import statistics  # noqa: PLC0415

    right = statistics._extremes
    return patch.object(statistics, "_extremes", lambda *where: (right(*where)[0],) * 2)


def _no_keys() -> AbstractContextManager[Any]:
    from gateway.execution.constraints.unique_check import keep_keys  # noqa: PLC0415

    return _everywhere(keep_keys, _nothing)


def _no_references() -> AbstractContextManager[Any]:
    from gateway.execution.constraints.foreign_key_referencing import keep_references  # noqa: PLC0415

    return _everywhere(keep_references, _nothing)


def _no_checks() -> AbstractContextManager[Any]:
    from planner.plans.constraint_checks import enforced  # noqa: PLC0415

    return _everywhere(enforced, lambda query, table, _checks, **others: enforced(query, table, {}, **others))


def _wrong_state() -> AbstractContextManager[Any]:
    from catalog.errors import SqlState  # noqa: PLC0415
    from gateway.execution.constraints import unique_check  # noqa: PLC0415

    states = SimpleNamespace(**{**SqlState.__members__, "UNIQUE_VIOLATION": "23000"})
    return patch.object(unique_check, "SqlState", states)


def _no_row_locks() -> AbstractContextManager[Any]:
    from gateway.execution.locks.row_locks import hold_rows  # noqa: PLC0415

    return _everywhere(hold_rows, _true)


def _new_snapshots() -> AbstractContextManager[Any]:
    from gateway.transaction.isolation_level import Isolation, isolation_of  # noqa: PLC0415

    return _everywhere(isolation_of, lambda _level: Isolation.READ_COMMITTED)


def _of_planner(name: str) -> Plant:
    """One of those that random queries are measured by."""

    @contextmanager
    def planted() -> Iterator[None]:
        from tests.answers.faults import FAULTS as OF_PLANNER  # noqa: PLC0415

        [plant] = [each.plant for each in OF_PLANNER if each.name == name]
        with plant():
            yield

    return planted


FAULTS: Final = (
    Fault("lost row", _next_row_too, ("tests/gateway/test_hot_rows.py", "-k", "positions_deleted")),
    Fault("wrong bound", _wrong_bound, ("tests/gateway/test_skipped_files.py",)),
    Fault("skipped key", _no_keys, ("tests/gateway/test_keys.py",)),
    Fault("skipped reference", _no_references, (_SESSIONS, "-k", "references.sql")),
    Fault("skipped check", _no_checks, (_SESSIONS, "-k", "failing-rows or pending-checks or constraints.sql")),
    Fault("wrong SQLSTATE", _wrong_state, ("tests/gateway/test_keys.py",)),
    Fault("lock not taken", _no_row_locks, (_ISOLATION, "-k", "change-meets or lost-update or upgrades")),
    Fault("snapshot of each statement", _new_snapshots, (_ISOLATION, "-k", "non-repeatable-read")),
    Fault("NULLS LAST for FIRST", _of_planner("NULLS LAST for FIRST"), (_SESSIONS, "-k", "orders-of-nulls")),
    Fault("inner for a left join", _of_planner("an inner for a left join"), _QUERIES),
)


def _plant(fault: str) -> None:
    """From now on, gateways that tests start run this file as their program."""
    start = GatewayProcess.start

    def planted(process: GatewayProcess) -> GatewayProcess:
        if process.program in {(str(SLUICE),), SPARK_LATER}:
            process.program = (sys.executable, "-m", "tests.planted_faults", fault)
        return start(process)

    patch.object(GatewayProcess, "start", planted).start()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--planted", help="the fault that gateways have")


def pytest_configure(config: pytest.Config) -> None:
    if fault := config.getoption("planted"):
        _plant(fault)


def _serve(fault: str) -> int:
    """Run `sluice` with the fault."""
    from gateway.node.stack_depth import begin_with_deep_stack  # noqa: PLC0415

    begin_with_deep_stack()
    from gateway.cli import main as cli  # noqa: PLC0415
    from gateway.cli import serve  # noqa: F401, PLC0415  all that is to have the fault

    [plant] = [each.plant for each in FAULTS if each.name == fault]
    with plant():
        return cli.main(sys.argv[2:])


def found_by(fault: Fault) -> str | None:
    """The test that fails, if any does. A gateway that does not start is no finding."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rfE", "-p", "tests.planted_faults", "--tier", "fast"]
    command += ["--turn", "none"]  # of a commit that changed none of the tests
    told = subprocess.run(
        [*command, "--planted", fault.name, *fault.tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SLUICE_ANSWERS_SEED": "1"},  # Spark begins with every query
    ).stdout.splitlines()
    assert not any(line.startswith("ERROR ") for line in told), "\n".join(told[-40:])
    return next((line for line in told if line.startswith("FAILED ")), None)


def main(names: Sequence[str]) -> int:
    """Plant each fault, or those that are named, and tell which test finds it."""
    faults = [each for each in FAULTS if not names or each.name in names]
    missed = 0
    for fault in faults:
        test = found_by(fault)
        missed += test is None
        print(f"{fault.name}: {test or 'NOT FOUND'}"[:200], flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are found")
    return 1 if missed else 0


if __name__ == "__main__":
    if "serve" in sys.argv[2:3]:
        sys.exit(_serve(sys.argv[1]))
    sys.exit(main(sys.argv[1:]))
