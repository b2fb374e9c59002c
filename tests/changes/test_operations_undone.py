"""Every schema operation (tests/golden/operations), failed and killed wherever it stops: exactly the former objects
exist afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import psycopg
import pytest

from catalog.schema.states import PATHS, Direction, Work
from tests.changes.operations import Operation, all_halted, areas, dump, execute, failing_at_commit, prepare
from tests.changes.stages import failing
from tests.forks import ask_sluice
from tests.servers import GatewayProcess, open_directory
from tests.witness import Witness

pytestmark = pytest.mark.soak

_AREAS = areas()
_OPERATIONS = [each for area in _AREAS for each in area.operations]
_STOPS = max(len(each.states) for each in _OPERATIONS)  # places where operations stop
_STEPS = [
    pair for work in (Work.VALIDATION, Work.REORGANISATION) for pair in pairwise(PATHS[work, Direction.ADDING][:-1])
]
_LEFT = "SELECT FROM pg_sluice.schema_change WHERE finished IS NULL UNION ALL SELECT FROM pg_sluice.element"
_TABLES = "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE database_name = '{lake}' ORDER BY 1"


@pytest.fixture(scope="module")
def process() -> Iterator[GatewayProcess]:
    """A gateway of these tests' own, with what each operation is about. They leave that as it is."""
    with open_directory("operations") as directory, GatewayProcess(directory / "data") as process:
        for area in _AREAS:
            prepare(process.server, area)
        yield process


def _everything(process: GatewayProcess) -> tuple[object, ...]:
    """Schemas, files, and the rows as DuckDB reads them; and nothing is under way."""
    with psycopg.connect(process.catalog_url) as catalog:
        assert catalog.execute(_LEFT).fetchall() == []
    files = sorted(str(path) for path in process.data_dir.glob("lake/**/*.parquet"))
    witness = Witness(process.data_dir)
    try:
        tables = [name for (name,) in witness.rows(_TABLES.replace("{lake}", witness.lake))]
        rows = {name: sorted(map(str, witness.rows(f"FROM {witness.lake}.{name}"))) for name in tables}
    finally:
        witness.close()
    return [dump(process.server, area) for area in _AREAS], files, rows


def test_failed(process: GatewayProcess) -> None:
    there = _everything(process)
    for before, after in _STEPS:
        with failing(process, before, after):
            for each in _OPERATIONS:
                if before in each.states and after in each.states:
                    assert execute(process.server, each) == f"ERROR P0001 no {after} today", each.name
    with failing_at_commit(process):
        for each in _OPERATIONS:
            if not each.fails:
                assert execute(process.server, each) == "ERROR P0001 no commit today", each.name
    assert _everything(process) == there


# Changes that a block defers, which its COMMIT carries out: of every area, those that write files, look at rows, or
# take something away.
_IN_BLOCKS = {
    "columns": {
        "add with a random identifier", "add generated", "add serial", "add with constraints", "drop cascade",
        "set expression", "several clauses",
    },
    "types": {"integer to bigint", "text to integer", "by a user's function", "primary key", "in several clauses"},
    "constraints": {
        "add check by a user's function", "add foreign key", "validate not null", "change the primary key",
        "several clauses",
    },
    "tables": {"drop cascade", "rename", "truncate", "truncate cascade"},
    "views": {"create or replace", "drop cascade", "refresh concurrently", "drop the table below, cascade"},
}  # fmt: skip


def _kill(process: GatewayProcess, operations: Sequence[Operation], stop: int, *, in_blocks: bool = False) -> None:
    there = _everything(process)
    with all_halted(process, operations, stop, in_blocks=in_blocks) as answers:
        process.kill()
        process.start()
    assert all(answer.result(30).startswith("ERROR None") for answer in answers)
    assert _everything(process) == there, stop


@pytest.mark.parametrize("stop", range(_STOPS))
def test_killed_in_each_state(process: GatewayProcess, stop: int) -> None:
    _kill(process, [each for each in _OPERATIONS if not each.fails and stop < len(each.states)], stop)
    checked = ask_sluice("check", "--data-dir", str(process.data_dir))
    assert (checked.returncode, checked.stdout) == (0, "the lake is consistent\n")


def test_killed_in_its_commit(process: GatewayProcess) -> None:
    """Of one area: all are committed in the same way, whatever they passed before."""
    indexes = next(area for area in _AREAS if area.name == "indexes")
    _kill(process, [each for each in indexes.operations if not each.fails], _STOPS)


def test_blocks_killed_in_their_commit(process: GatewayProcess) -> None:
    operations = [each for area in _AREAS for each in area.operations if each.name in _IN_BLOCKS.get(area.name, ())]
    assert len(operations) == sum(map(len, _IN_BLOCKS.values()))
    _kill(process, operations, _STOPS, in_blocks=True)
