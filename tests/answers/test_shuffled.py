"""Written and random queries over shuffled blocks, with another seed each day: does an answer depend on the order?

`SLUICE_ANSWERS_SEED` fixes the seed.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence

import pytest

from tests.answers.asking import Asker
from tests.answers.compare import Verdict, judge
from tests.answers.orders import READ_TWICE, TABLES, TOTAL
from tests.answers.sides import Server
from tests.servers import GatewayProcess, open_directory
from tests.servers import Server as Address

SEED = int(os.environ.get("SLUICE_ANSWERS_SEED") or datetime.date.today().toordinal())
_QUERIES = 20
_SHRINK_SECONDS = 20.0


@pytest.fixture(scope="module")
def addresses(oracle: Address) -> Iterator[tuple[Address, Address]]:
    arguments = ("--engine", "spark", "--shuffled", str(SEED))
    with open_directory("shuffled") as directory, GatewayProcess(directory / "data", arguments=arguments) as gateway:
        yield oracle, gateway.server


@pytest.fixture(scope="module")
def sides(addresses: tuple[Address, Address]) -> Iterator[tuple[Server, Server]]:
    """For random queries, whose tables are made beside each set of them."""
    yield from _connected(addresses, "answers", ())


@pytest.fixture(scope="module")
def with_ties(addresses: tuple[Address, Address]) -> Iterator[tuple[Server, Server]]:
    """For hand-made queries, with their tables."""
    yield from _connected(addresses, "orders", TABLES.strip().split(";\n"))


def _connected(
    addresses: tuple[Address, Address], schema: str, tables: Sequence[str]
) -> Iterator[tuple[Server, Server]]:
    found = Server(addresses[0].url, seconds=5), Server(addresses[1].url)
    for side in found:
        for statement in (f"CREATE SCHEMA IF NOT EXISTS {schema}", f"SET search_path = {schema}", *tables):
            answer = side.run(statement)
            assert not answer.sqlstate, (statement, answer)
    yield found
    for side in found:
        side.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        side.close()


def test_the_rows_of_tables_come_in_many_orders(with_ties: tuple[Server, Server]) -> None:
    answers = {with_ties[1].ask(f"SELECT array_agg(id), {number} FROM ties").rows[0][0] for number in range(5)}
    assert len(answers) > 1


@pytest.mark.turns
@pytest.mark.parametrize("name", [*READ_TWICE, *TOTAL])
def test_no_answer_hangs_on_the_order_of_blocks(with_ties: tuple[Server, Server], name: str) -> None:
    sql = (READ_TWICE | TOTAL)[name]
    wanted, answer = (side.ask(sql) for side in with_ties)
    assert judge(wanted, answer, is_list=False) is Verdict.SAME, f"seed {SEED}: {sql}\n{wanted}\n{answer}"


def test_queries(sides: tuple[Server, Server]) -> None:
    asker = Asker(*sides, _SHRINK_SECONDS)
    asker.queries(str(SEED), 0, _QUERIES)
    assert asker.counts.same > _QUERIES * 0.7, asker.counts
    shown = "\n".join(map(str, asker.counts.differences))
    assert not asker.counts.differences, f"seed {SEED}: PostgreSQL answers otherwise\n{shown}"
