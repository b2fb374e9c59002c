"""By hand: `python -m tests.answers --seed N --queries N [--scans N] [--changes N] [--partitions N] [DSN DSN]`.

The DSNs are a gateway's and a PostgreSQL's. Without them it starts both by itself. With `--here` the planner answers in
this process, for queries alone. With `--shuffled N` the rows of tables come out of order; with `--workers N` the
gateway has a Spark cluster; with `--set sluice.hot_rows=0` all rows are in files. `--sessions N` asks in so many
sessions at once. Both databases lose their schemas `answers`. `--tallies FILE` keeps the results, batch by batch: the
same command continues an interrupted run, and its sum is that of the whole.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from tests.answers.pieces import ASKED, Piece
from tests.answers.stages import Stage
from tests.answers.tallies import Tallies


def main() -> int:
    given = _given()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that its servers end, too
    began = time.monotonic()
    stage = _stage(given)
    tallies = Tallies(given.tallies)
    wrong = 0
    with stage.open() as askers:
        for asker in askers:
            asker.shrink_seconds = given.shrink_seconds
        for what in ASKED:
            count = getattr(given, what)
            if count:
                piece = Piece(stage, what, given.seed, count, given.first)
                piece.ask(tallies, askers)
                counts, different = tallies.sum(piece.run)
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
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the gateway's sessions")
    parser.add_argument("--sessions", type=int, default=1, help="how many ask at once")
    parser.add_argument("--tallies", type=Path, metavar="FILE", help="keeps what came out, and goes on after it")
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    given = parser.parse_args()
    if (given.gateway is None) != (given.postgres is None):
        parser.error("it takes both DSNs, or none")
    if given.gateway is not None and (given.shuffled is not None or given.workers or given.here):
        parser.error("a gateway of one's own is as it is")
    if given.here and (given.changes or given.partitions or given.workers or given.set or given.sessions > 1):
        parser.error("changes, partitions, workers, settings and several sessions need a gateway")
    return given


def _stage(given: argparse.Namespace) -> Stage:
    urls = None if given.gateway is None else (given.gateway, given.postgres)
    return Stage(given.here, urls, given.shuffled, given.workers, tuple(given.set), given.sessions)


if __name__ == "__main__":
    sys.exit(main())
