"""By hand: `python -m tests.answers --seed N --queries N [--scans N] [--changes N] [--partitions N] [DSN DSN]`.

The DSNs are a gateway's and a PostgreSQL's. Without them it starts both by itself. With `--here` the planner answers in
this process, which is much faster, for queries alone. With `--shuffled N` the rows of tables come out of order; with
`--workers N` the gateway has a Spark cluster. Both databases lose their schema `answers`. `--tallies FILE` keeps the
results, batch by batch: the same command continues an interrupted run, and its sum is that of the whole.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from tests.answers import stages
from tests.answers.asking import Asker
from tests.answers.changing import Changer
from tests.answers.partitions import Partitions
from tests.answers.tallies import Ask, Run, Tallies

PARTITIONS_PER_WORLD = 6


def main() -> int:
    given = _given()
    began = time.monotonic()
    tallies = Tallies(given.tallies)
    wrong = 0
    with _stage(given) as asker:
        asker.shrink_seconds = given.shrink_seconds
        for what, ask in _asked(asker, given.seed).items():
            count = getattr(given, what)
            if count:
                run = Run(what, given.seed, _named(given), given.shuffled)
                tallies.ask(run, given.first, count, asker, ask)
                counts, different = tallies.sum(run)
                print(f"All {what} of seed {given.seed}:\n{counts.kinds()}{counts.summary(different)}")
                wrong += different
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("postgres", nargs="?")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--scans", type=int, default=0, help="queries that only read columns")
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=0, help="how many sets of tables are asked without an oracle")
    parser.add_argument("--first", type=int, default=0, help="the first query's, change's or set of tables' number")
    parser.add_argument("--here", action="store_true", help="queries alone, of the planner in this process")
    parser.add_argument("--shuffled", type=int, metavar="SEED", help="with the rows of tables out of order")
    parser.add_argument("--workers", type=int, default=0, help="of a Spark cluster on this machine")
    parser.add_argument("--tallies", type=Path, metavar="FILE", help="keeps what came out, and goes on after it")
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    given = parser.parse_args()
    if (given.gateway is None) != (given.postgres is None):
        parser.error("it takes both DSNs, or none")
    if given.gateway is not None and (given.shuffled is not None or given.workers or given.here):
        parser.error("a gateway of one's own is as it is")
    if given.here and (given.changes or given.partitions or given.workers):
        parser.error("changes, partitions and workers need a gateway")
    return given


def _named(given: argparse.Namespace) -> str:
    """Who answers."""
    if given.workers:
        return f"gateway with {given.workers} workers"
    return "here" if given.here else "gateway"


def _stage(given: argparse.Namespace) -> AbstractContextManager[Asker]:
    if given.here:
        return stages.here(given.shuffled)
    if given.gateway is not None:
        return stages.over_urls(given.gateway, given.postgres)
    return stages.started(given.shuffled, given.workers)


def _asked(asker: Asker, seed: str) -> dict[str, Ask]:
    def partitions(first: int, count: int) -> None:
        checks = Partitions(asker.sluice, asker.counts.differences, asker.shrink_seconds)
        for place in range(first, first + count):
            checks.check(seed, place, PARTITIONS_PER_WORLD)
        asker.counts.same += checks.checked - checks.refused
        if checks.refused:
            asker.counts.refused["a partition"] += checks.refused

    return {
        "queries": lambda first, count: asker.queries(seed, first, count),
        "scans": lambda first, count: asker.scans(seed, first, count),
        "changes": lambda first, count: Changer(asker).changes(seed, first, count),
        "partitions": partitions,
    }


if __name__ == "__main__":
    sys.exit(main())
