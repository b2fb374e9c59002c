"""By hand: `python -m tests.answers --seed N --queries N [--changes N] [GATEWAY_DSN POSTGRES_DSN]`.

Without DSNs it starts a gateway and a PostgreSQL by itself; with `--here` the planner answers in this process, which
is much faster, for queries alone. Both databases lose their schema `answers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager

from tests.answers import stages
from tests.answers.asking import Asker


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gateway", nargs="?")
    parser.add_argument("postgres", nargs="?")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first query's number")
    parser.add_argument("--here", action="store_true")
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
    with stage as asker:
        asker.shrink_seconds = given.shrink_seconds
        began = time.monotonic()
        shown = 0
        for number in range(given.first, given.first + given.queries, 60 - given.first % 60 if given.queries > 60 else given.queries):
            asker.queries(given.seed, number, min(60, given.first + given.queries - number))
            for difference in asker.counts.differences[shown:]:
                print(difference, flush=True)
            shown = len(asker.counts.differences)
        print(asker.counts)
        print(f"{time.monotonic() - began:.0f} s")
        return 1 if asker.counts.differences else 0


if __name__ == "__main__":
    sys.exit(main())
