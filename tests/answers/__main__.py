"""By hand: `python -m tests.answers --seed N --queries N [--changes N] [--partitions N] [GATEWAY_DSN POSTGRES_DSN]`.

Without DSNs it starts a gateway and a PostgreSQL by itself; with `--here` the planner answers in this process, which
is much faster, for queries alone. Both databases lose their schema `answers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager

from tests.answers import stages
from tests.answers.asking import QUERIES_PER_WORLD, Asker
from tests.answers.changing import Changer
from tests.answers.partitions import Partitions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("postgres", nargs="?")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=0, help="how many sets of tables are asked without an oracle")
    parser.add_argument("--first", type=int, default=0, help="the first query's or change's number")
    parser.add_argument("--here", action="store_true", help="queries alone, of the planner in this process")
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    given = parser.parse_args()
    if (given.gateway is None) != (given.postgres is None):
        parser.error("it takes both DSNs, or none")
    stage: AbstractContextManager[Asker]
    if given.here:
        stage = stages.here()
    elif given.gateway is not None:
        stage = stages.over_urls(given.gateway, given.postgres)
    else:
        stage = stages.started()
    if given.here and (given.changes or given.partitions):
        parser.error("changes and partitions need a gateway")
    with stage as asker:
        asker.shrink_seconds = given.shrink_seconds
        began = time.monotonic()
        last = given.first + given.queries
        for number in range(given.first, last, QUERIES_PER_WORLD):
            asker.queries(given.seed, number, min(QUERIES_PER_WORLD, last - number))
            asker.show()
        if given.changes:
            Changer(asker).changes(given.seed, given.first, given.changes)
            asker.show()
        if given.partitions:
            partitions = Partitions(asker.sluice, asker.counts.differences, given.shrink_seconds)
            for place in range(given.partitions):
                partitions.check(given.seed, place, 6)
                asker.show()
            print(f"{partitions.checked} partitions checked, {partitions.refused} refused")
        print(asker.counts)
        print(f"{time.monotonic() - began:.0f} s")
        return 1 if asker.counts.differences else 0


if __name__ == "__main__":
    sys.exit(main())
